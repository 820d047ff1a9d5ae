/** Consent, the secret, and reports that wait until they have come: all that a page needs. */

import { Device, type DeviceOptions, metricOf, type NameOf, type RowsOf } from "./device.js";
import type * as plan from "./plan.js";
import { type Answer, type Backoff, exchange, post } from "./post.js";
import { type Bytes, hex, Keystream, SystemSource, unhex } from "./random.js";
import type { PublicKey } from "./sealing.js";
import { keptSecret, type Store } from "./store.js";
import type { StringOptions } from "./strings.js";
import { type TokenOptions, Wallet } from "./wallet.js";

export interface ReporterOptions {
  plan: plan.Plan;
  key: PublicKey;
  endpoint: string;
  /** `browserStore()`, or `new FileStore(folder)`: it holds one consent. */
  store: Store;
  /** Milliseconds for which a report is tried: the length of a window, a day if not given. */
  keepFor?: number;
  values?: DeviceOptions["values"];
  backoff?: Backoff;
  /** Where the plan asks for tokens: whose they are. */
  tokens?: TokenOptions;
  /** Where the plan has metrics of strings: who evaluates them, and whose tokens pay for it. */
  strings?: StringsOptions;
}

/** The issuer is that of tokens which pay for queries. */
export interface StringsOptions extends TokenOptions {
  /** The address of the party that evaluates strings, as in https://strings.example */
  party: string;
  /** By name, what the plan says of each metric of strings: all of them, on all devices. */
  sizes: Record<string, StringOptions>;
}

/** What became of a report; "none": this device has nothing to report, or is not asked. */
export type Outcome = Answer | "expired" | "withdrawn" | "none" | "no consent";

/** A report as it is kept; once it is done with, its outcome stands in its place. */
interface Kept {
  made: number;
  collection: string;
  consent: string;
  body: string;
}

const NUMBER = 16; // hexadecimal digits that tell one consent from another

/**
 * Reports of one user, each made once. A consent is one text, its number and its secret: both come
 * and go in one step of the store. A report names its consent, and is withdrawn for good where
 * another stands, whichever tab looks: numbers do not come again.
 */
export class Reporter<Metrics extends RowsOf<Metrics> = Record<string, plan.Row>> {
  private readonly wallet: Wallet | null = null;
  private readonly queries: Wallet | null = null;

  constructor(private readonly options: ReporterOptions) {
    const { plan, store, tokens, strings, backoff } = options;
    if (strings) {
      const count = Object.keys(strings.sizes).length;
      this.queries = new Wallet(plan, store, strings, "queries", count, backoff);
    }
    if (!plan.tokens) return;
    if (!tokens) throw new Error("the plan asks for tokens: say whose (`tokens: {issuer, ...}`)");
    this.wallet = new Wallet(plan, store, tokens, "issuer", plan.tokens, backoff);
  }

  async consented(): Promise<boolean> {
    return (await this.standing()) !== null;
  }

  /** The user has agreed. Before that nothing is drawn, kept or sent. */
  async consent(): Promise<void> {
    if (await this.consented()) return;
    const drawn = await new SystemSource().bytes(NUMBER / 2 + 32);
    await this.options.store.once("consent", hex(drawn));
  }

  /**
   * The user has changed their mind: the secret, all waiting reports and what blinds strings are
   * forgotten. That a window was answered is not, nor is a lasting secret: to consent again would
   * else draw noise anew, as often as one likes.
   */
  async withdraw(): Promise<void> {
    await this.options.store.remove("consent");
    for (const entry of await this.entries()) await this.kept(entry); // which closes it
  }

  /** Draws and keeps a report, the first time, and sends it. */
  async report<N extends NameOf<Metrics>>(name: N, rows: readonly Metrics[N][]): Promise<Outcome> {
    const { plan, key, store, values } = this.options;
    const consent = await this.standing();
    if (consent === null) return "no consent";
    const { place } = metricOf(plan, name, rows); // rows that do not fit leave nothing behind
    const entry = await this.entry(place);
    if ((await store.read(entry)) === null) {
      const secret = await this.secret(consent);
      const body = await new Device<Metrics>(plan, { secret, values }).sealed(name, rows, key);
      if (body === null) return "none";
      await this.keep(entry, consent, body);
    }
    return this.send(entry);
  }

  /**
   * The same for a metric of strings, which a party seals alike without seeing them. It is asked at
   * the moment of its token: until then, and while it cannot be reached, this is "waiting", and no
   * string is kept. So call it again, with the same texts: once the party was asked, it refuses
   * others.
   */
  async strings(name: string, texts: readonly string[]): Promise<Outcome> {
    const { plan, key, store, strings, backoff } = this.options;
    const metric = plan.metrics.find((each) => each.name === name);
    if (metric === undefined) throw new Error(`the plan has no metric ${name}`);
    if (!strings || !Object.hasOwn(strings.sizes, name)) {
      throw new Error(`metric ${name}: say who evaluates its strings (\`strings: {party, ...}\`)`);
    }
    if (!plan.one_report) throw new Error("strings of rows that are nobody's: not here");
    const consent = await this.standing();
    if (consent === null) return "no consent";
    const entry = await this.entry(metric.place);
    if ((await store.read(entry)) === null) {
      const token = await this.queries?.token(entry);
      if (token === null) return "waiting";
      if (!token) return this.close(entry, "refused");
      const party = strings.keys.key(plan, "strings"); // no request that could not be checked
      // A token pays for one request: it is drawn from the same bytes until it is answered.
      const draws = `draws-${entry}`;
      await this.keep(draws, consent, await new SystemSource().bytes(32));
      const kept = await this.kept(draws);
      if (typeof kept === "string") return this.send(entry);
      const device = new Device(plan, {
        secret: await this.secret(consent),
        open: () => Keystream.open(unhex(kept.body)),
      });
      const request = await device.strings(name, texts, strings.sizes[name], key);
      const url = `${strings.party}/strings/${encodeURIComponent(plan.window?.name ?? "")}`;
      const wanted = async () => typeof (await this.kept(draws)) === "object"; // in any tab
      const paid = { "Hushbeam-Token": token };
      const answer = await exchange(url, request.elements(), { ...backoff, wanted }, paid);
      if (answer === "waiting" && (await wanted())) return answer;
      // Another tab, which was answered, may have kept the report, and removed these bytes.
      if (answer === "refused") await store.once(entry, answer);
      else if (answer !== "waiting") {
        await this.keep(entry, consent, await request.report(answer, party));
      }
      await store.remove(draws);
    }
    return this.send(entry);
  }

  /**
   * Sends what waits: as a page loads, and when it is online again. How many still wait. Where the
   * plan asks for tokens, call it now and then: they are fetched, reports or not, and spent when
   * the moments that were drawn have come.
   */
  async flush(): Promise<number> {
    const consented = await this.consented();
    const { plan, store } = this.options;
    const waiting: string[] = [];
    const own = `report-${plan.window?.fingerprint}-`;
    for (const entry of await this.entries()) {
      const kept = await this.kept(entry);
      // Another collection's reports are for another endpoint, which this one would refuse.
      if (typeof kept === "string" || kept.collection !== plan.collection) continue;
      const report = sealedBy(entry);
      if (report === null) waiting.push(entry);
      else if (!report.startsWith(own) || (await store.read(report)) !== null) {
        await this.close(entry, "expired"); // nothing more is to be drawn from them
      }
    }
    if (!consented) return 0;
    await this.wallet?.tokens();
    await this.queries?.tokens();
    let left = 0;
    for (const [done, entry] of waiting.entries()) {
      if ((await this.send(entry)) !== "waiting") continue;
      if (this.wallet === null) return waiting.length - done; // nor would others
      left++; // each has a moment of its own
    }
    return left;
  }

  /** The consent that stands: its number, then its secret. */
  private async standing(): Promise<string | null> {
    const text = await this.options.store.read("consent");
    if (text === null || /^[0-9a-f]{80}$/.test(text)) return text;
    throw new Error("the kept consent is damaged: call withdraw(), then ask the user again");
  }

  /** Under which reports are named: that of the consent, or one that outlasts it. */
  private async secret(consent: string): Promise<Bytes> {
    const { plan, store } = this.options;
    return lasting(plan) ? keptSecret(store) : unhex(consent.slice(NUMBER));
  }

  /** Keeps a report that waits; another tab's may be there. */
  private async keep(entry: string, consent: string, body: Bytes): Promise<void> {
    const kept: Kept = {
      made: Date.now(),
      collection: this.options.plan.collection,
      consent: consent.slice(0, NUMBER),
      body: hex(body),
    };
    await this.options.store.once(entry, JSON.stringify(kept));
  }

  /** Where a report is kept: one of a metric and window, or any number where rows count. */
  private async entry(place: number): Promise<string> {
    const { window, one_report } = this.options.plan;
    const each = `${window?.fingerprint}-${place}`;
    if (one_report) return `report-${each}`;
    return `rows-${each}-${hex(await new SystemSource().bytes(8))}`;
  }

  private async entries(): Promise<string[]> {
    return (await this.options.store.names()).filter((name) => /^(report|rows|draws)-/.test(name));
  }

  /** A report that waits, or the bytes that draw its request, or what became of it. */
  private async kept(entry: string): Promise<Kept | Outcome> {
    const text = (await this.options.store.read(entry)) ?? "none";
    if (!text.startsWith("{")) return text as Outcome;
    const kept = JSON.parse(text) as Kept;
    // Read after the report, whose consent was given before: if it is gone now, it was withdrawn.
    const consent = await this.options.store.read("consent");
    if (consent?.slice(0, NUMBER) !== kept.consent) return this.close(entry, "withdrawn");
    const age = Math.abs(Date.now() - kept.made); // a clock may be set back
    const { keepFor = 86_400_000 } = this.options;
    return age < keepFor ? kept : this.close(entry, "expired");
  }

  private async send(entry: string): Promise<Outcome> {
    const kept = await this.kept(entry);
    if (typeof kept === "string") return kept;
    const token = await this.wallet?.token(entry);
    if (token === null) return "waiting";
    if (token === "") return this.close(entry, "refused");
    const headers = token === undefined ? undefined : { "Hushbeam-Token": token };
    const { endpoint, backoff } = this.options;
    const wanted = async () => typeof (await this.kept(entry)) === "object"; // in any tab
    const answer = await post(endpoint, unhex(kept.body), { ...backoff, wanted }, headers);
    return answer === "waiting" ? answer : this.close(entry, answer);
  }

  private async close(entry: string, outcome: Outcome): Promise<Outcome> {
    const { store } = this.options;
    const report = sealedBy(entry);
    if (report !== null) await store.once(report, outcome); // before these bytes are gone
    if (entry.startsWith("report-")) await store.write(entry, outcome);
    else await store.remove(entry);
    return outcome;
  }
}

/** Of which report of strings these bytes draw the request: with them strings can be guessed. */
function sealedBy(entry: string): string | null {
  return entry.startsWith("draws-") ? entry.slice("draws-".length) : null;
}

/** Whether a new secret would draw again what is drawn once: permanent noise, or one metric. */
function lasting({ noise, metrics }: plan.Plan): boolean {
  return noise === "permanent" || metrics.some(({ client }) => client?.draws);
}
