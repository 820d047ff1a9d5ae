/** Posts a report until it has come: the same bytes each time, later and later. */

import { type Bytes, integers, SystemSource } from "./random.js";

/** At most 5 tries; the first pause is of up to 1 s, each may be twice as long, up to a minute. */
export interface Backoff {
  tries?: number;
  first?: number; // milliseconds
  longest?: number; // milliseconds
  /** Asked after each pause: whether the report is still to be sent. */
  wanted?: () => Promise<boolean>;
}

/** "sent": the endpoint keeps it. "refused": it never will. "waiting": it may another time. */
export type Answer = "sent" | "refused" | "waiting";

/** What goes with a body, as a token; never anything of the user. */
export type Headers = Record<string, string>;

/**
 * Sends a report, and nothing else of the user. Pauses are drawn between 0 and a bound, so that
 * devices that failed together do not come back together.
 */
export async function post(
  endpoint: string,
  body: Bytes,
  how: Backoff = {},
  headers?: Headers,
): Promise<Answer> {
  const answer = await exchange(endpoint, body, how, headers, 204);
  return typeof answer === "string" ? answer : "sent";
}

/** The same, for what comes back with the status of success. */
export async function exchange(
  endpoint: string,
  body: Bytes,
  how: Backoff = {},
  headers?: Headers,
  success = 200,
): Promise<Bytes | "refused" | "waiting"> {
  const { tries = 5, first = 1000, longest = 60_000, wanted = async () => true } = how;
  for (let k = 1; ; k++) {
    const answer = await posted(endpoint, body, success, headers);
    if (answer !== "waiting" || k >= tries) return answer;
    const bound = Math.floor(Math.min(longest, first * 2 ** (k - 1)));
    const [pause] = await integers(new SystemSource(), BigInt(bound) + 1n, 1);
    await new Promise((ready) => setTimeout(ready, Number(pause)));
    if (!(await wanted())) return "waiting";
  }
}

async function posted(endpoint: string, body: Bytes, success: number, headers?: Headers) {
  const init: RequestInit = {
    method: "POST",
    body,
    headers,
    credentials: "omit",
    referrerPolicy: "no-referrer",
    redirect: "error", // followed, a POST may become a GET, which is answered and carries nothing
    signal: AbortSignal.timeout(30_000),
  };
  try {
    const answer = await fetch(endpoint, init);
    // No other will do: a portal on the way answers 200 with a page of its own.
    if (answer.status === success) return new Uint8Array(await answer.arrayBuffer());
    // These are about the body, or its window, which is over (410); others may be about the server.
    return [400, 409, 410, 413, 422].includes(answer.status) ? "refused" : "waiting";
  } catch {
    return "waiting";
  }
}
