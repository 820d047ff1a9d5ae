/* A program in C: `use PLAN SECRET METRIC ROWS` prints a report in hexadecimal digits. */
#include <stdio.h>
#include <string.h>

#include "hushbeam.h"

static const uint8_t *bytes(const char *text) { return (const uint8_t *)text; }

static int refused(HushbeamAnswer answer) {
    fprintf(stderr, "%.*s\n", (int)answer.length, (const char *)answer.data);
    hushbeam_free(answer.data, answer.length);
    return 2;
}

int main(int count, char **words) {
    uint8_t secret[32];
    HushbeamAnswer answer;
    if (count != 5 || strlen(words[2]) != 64) return 2;
    for (size_t i = 0; i < sizeof secret; i++) sscanf(words[2] + 2 * i, "%2hhx", &secret[i]);

    HushbeamDevice *device = hushbeam_device_new(
        bytes(words[1]), strlen(words[1]), secret, sizeof secret, NULL, 0, &answer);
    if (device == NULL) return refused(answer);
    hushbeam_free(answer.data, answer.length);

    hushbeam_report(device, bytes(words[3]), strlen(words[3]), bytes(words[4]), strlen(words[4]),
                    NULL, 0, &answer);
    if (answer.status != HUSHBEAM_MADE) return refused(answer);
    for (size_t i = 0; i < answer.length; i++) printf("%02x", answer.data[i]);
    hushbeam_free(answer.data, answer.length);

    hushbeam_report(device, bytes("none"), 4, bytes("[]"), 2, NULL, 0, &answer);
    if (answer.status != HUSHBEAM_REFUSED || answer.length == 0) return 3;
    hushbeam_free(answer.data, answer.length);
    hushbeam_device_free(device);

    HushbeamRequest *request = hushbeam_request_new(
        3, secret, sizeof secret, bytes("000102030405060708090a0b0c0d0e0f"), 32, bytes("issuer"), 6,
        &answer);
    if (request == NULL || answer.length != 3 * 32) return 4;
    hushbeam_free(answer.data, answer.length);
    hushbeam_request_free(request);
    return 0;
}
