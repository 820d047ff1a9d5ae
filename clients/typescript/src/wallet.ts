/** The tokens of one window and kind: fetched in one batch at a moment that is drawn, and spent at others. */

import type { WindowKeys } from "./keys.js";
import type * as plan from "./plan.js";
import { type Backoff, exchange } from "./post.js";
import { hex, integers, Keystream, SystemSource, unhex } from "./random.js";
import type { Store } from "./store.js";
import { encoded, TokenRequest } from "./tokens.js";

export interface TokenOptions {
  /** The issuer's address, as in https://issuer.example */
  issuer: string;
  /** What the issuer knows this device by; it has enrolled the SHA-256 of it. */
  credential: string;
  keys: WindowKeys;
  /** Milliseconds within which the moments are drawn, an hour if not given. */
  spread?: number;
}

/** A request as it is kept until its answer has come, and then the tokens. */
interface Kept {
  due: number;
  key: string;
  tokens?: string[];
}

/** What tokens are for, and the names under which a store keeps them and what they were spent on. */
const NAMES = { issuer: ["tokens", "spent"], queries: ["queries", "asked"] } as const;

export class Wallet {
  /**
   * @param role - what its tokens pay for: reports, or queries of strings.
   * @param count - how many a window: all devices of a plan ask for as many.
   */
  constructor(
    private readonly plan: plan.Plan,
    private readonly store: Store,
    private readonly options: TokenOptions,
    private readonly role: keyof typeof NAMES,
    private readonly count: number,
    private readonly backoff?: Backoff,
  ) {}

  /**
   * All tokens, none where the issuer refuses, and `null` before they are there. Whatever becomes
   * of an answer, the same elements are sent again: an issuer answers a device no others.
   */
  async tokens(): Promise<string[] | null> {
    const { plan, store, options, role } = this;
    const drawn: Kept = { due: await this.moment(), key: hex(await new SystemSource().bytes(32)) };
    const name = `${NAMES[role][0]}-${plan.window?.fingerprint}`;
    const kept = JSON.parse(await store.once(name, JSON.stringify(drawn))) as Kept;
    if (kept.tokens) return kept.tokens;
    if (Date.now() < kept.due) return null;
    const key = options.keys.key(plan, role); // no request that could not be checked
    const source = await Keystream.open(unhex(kept.key));
    const request = await TokenRequest.drawn(this.count, source);
    const url = `${options.issuer}/tokens/${encodeURIComponent(plan.window?.name ?? "")}`;
    const headers = { Authorization: `Bearer ${options.credential}` };
    const answer = await exchange(url, request.elements(), this.backoff, headers);
    if (answer === "waiting") return null;
    const made = answer === "refused" ? [] : await request.tokens(answer, key);
    const tokens = made.map(encoded);
    await store.write(name, JSON.stringify({ due: kept.due, key: "", tokens }));
    return tokens;
  }

  /**
   * The token of a report, the same each time; "" where there is none left for it, and `null`
   * before its moment: a post right after a fetch would tell whose it is.
   */
  async token(report: string): Promise<string | null> {
    const tokens = await this.tokens();
    if (tokens === null) return null;
    for (const [k, token] of tokens.entries()) {
      const name = `${NAMES[this.role][1]}-${this.plan.window?.fingerprint}-${k}`;
      const held = await this.store.once(name, `${report} ${await this.moment()}`);
      const [owner, due] = held.split(" ");
      if (owner === report) return Date.now() < Number(due) ? null : token;
    }
    return "";
  }

  private async moment(): Promise<number> {
    const { spread = 3_600_000 } = this.options;
    const [wait] = await integers(new SystemSource(), BigInt(spread) + 1n, 1);
    return Date.now() + Number(wait);
  }
}
