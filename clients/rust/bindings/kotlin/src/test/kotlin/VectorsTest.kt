import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.ObjectMapper
import java.io.File
import kotlin.test.Test
import kotlin.test.assertContentEquals
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertFalse
import kotlin.test.assertNotEquals
import kotlin.test.assertNull
import kotlin.test.assertTrue
import uniffi.hushbeam.Device
import uniffi.hushbeam.HushbeamException
import uniffi.hushbeam.Request
import uniffi.hushbeam.Value

private fun read(name: String): JsonNode =
    ObjectMapper().readTree(File(System.getProperty("hushbeam.vectors"), name))

private fun unhex(text: String) = text.chunked(2).map { it.toInt(16).toByte() }.toByteArray()

private fun rows(given: JsonNode): List<Map<String, Value>> =
    given.map { row ->
        row.properties().associate { (column, value) ->
            column to
                when {
                    value.isNull -> Value.Missing
                    value.isBoolean -> Value.Flag(value.asBoolean())
                    value.isIntegralNumber -> Value.Whole(value.asLong())
                    value.isNumber -> Value.Number(value.asDouble())
                    else -> Value.Text(value.asText())
                }
        }
    }

private fun device(vectors: JsonNode) =
    Device(vectors["plan"].toString(), unhex(vectors["secret"].asText()), emptyMap())

class VectorsTest {
    // A user's one row has one input, so permanent noise is a function of the secret alone: the
    // bindings, which take no keystream, have to make the bytes of the vectors.
    @Test
    fun permanentReportsAreThoseOfTheVectors() {
        val vectors = read("reports-permanent.json")
        val cases = vectors["cases"].filter { it["rows"].size() == 1 }
        assertTrue(cases.size >= 12)
        device(vectors).use { device ->
            for (case in cases) {
                val sent = device.report(case["metric"].asText(), rows(case["rows"]))
                assertContentEquals(unhex(case["report"].asText()), sent)
            }
        }
    }

    @Test
    fun countersAreSealed() {
        val (vectors, seals) = read("reports-counters.json") to read("seals.json")
        val case = vectors["cases"].first { it["metric"].asText() == "apart" }
        device(vectors).use { device ->
            val sent = List(2) { device.sealed("apart", rows(case["rows"]), seals["key"].asText()) }
            assertEquals(28 + 28 + 56 * case["words"].size(), sent[0]?.size)
            assertNotEquals(sent[0]?.toList(), sent[1]?.toList())
            assertNull(device.sealed("apart", emptyList(), seals["key"].asText()))
        }
    }

    @Test
    fun whatDoesNotFitIsRefused() {
        device(read("reports-permanent.json")).use { device ->
            val error = assertFailsWith<HushbeamException> {
                device.report("olh", listOf(mapOf("pgae" to Value.Text("canary"))))
            }
            assertEquals("metric olh has no column \"pgae\": its columns are page", error.message)
        }
        assertFailsWith<HushbeamException> { Device("{}", ByteArray(32), emptyMap()) }
    }

    @Test
    fun tokensOfAnotherKeyAreRefused() {
        val key = ByteArray(32) { it.toByte() }
        val window = "ab".repeat(16)
        Request(3u, key, window, "issuer").use { request ->
            Request(3u, key, window, "issuer").use {
                assertContentEquals(request.elements(), it.elements())
            }
            Request(3u, key, window, "queries").use {
                assertFalse(request.elements().contentEquals(it.elements()))
            }
            assertEquals(3 * 32, request.elements().size)
            assertFailsWith<HushbeamException> { request.tokens(ByteArray(160), ByteArray(32)) }
        }
        assertFailsWith<HushbeamException> { Request(0u, key, window, "issuer") }
        assertFailsWith<HushbeamException> { Request(1u, key, window, "strings") }
    }
}
