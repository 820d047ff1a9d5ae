/** Consent, the secret, and reports that wait until they have come: all that a page needs. */

import { Device, type DeviceOptions, type NameOf, type RowsOf } from "./device.js";
import type * as plan from "./plan.js";
import { type Answer, type Backoff, post } from "./post.js";
import { hex, SystemSource, unhex } from "./random.js";
import type { PublicKey } from "./sealing.js";
import { keptSecret, type Store } from "./store.js";

export interface ReporterOptions {
  plan: plan.Plan;
  key: PublicKey;
  endpoint: string;
  /** `browserStore()`, or `new FileStore(folder)`: it holds one consent and one secret. */
  store: Store;
  /** Milliseconds for which a report is tried: the length of a window, a day if not given. */
  keepFor?: number;
  values?: DeviceOptions["values"];
  backoff?: Backoff;
}

/** What became of a report; "none": this device has nothing to report, or is not asked. */
export type Outcome = Answer | "expired" | "withdrawn" | "none" | "no consent";

/** A report as it is kept; once it is done with, its outcome stands in its place. */
interface Kept {
  made: number;
  collection: string;
  body: string;
}

/** Reports of one user, each made once. */
export class Reporter<Metrics extends RowsOf<Metrics> = Record<string, plan.Row>> {
  constructor(private readonly options: ReporterOptions) {}

  async consented(): Promise<boolean> {
    return (await this.options.store.read("consent")) !== null;
  }

  /** The user has agreed. Before that nothing is drawn, kept or sent. */
  async consent(): Promise<void> {
    if (await this.consented()) return;
    await this.forget(); // what a tab that died may have left
    await this.options.store.write("consent", "given");
  }

  /**
   * The user has changed their mind: the secret and all waiting reports are forgotten. That a
   * window was answered is not: to consent again would else draw noise anew, as often as one likes.
   */
  async withdraw(): Promise<void> {
    await this.options.store.remove("consent");
    await this.forget();
  }

  /** Draws and keeps a report, the first time, and sends it. */
  async report<N extends NameOf<Metrics>>(name: N, rows: readonly Metrics[N][]): Promise<Outcome> {
    const { plan, key, store, values } = this.options;
    if (!(await this.consented())) return "no consent";
    const entry = await this.entry(name);
    if ((await store.read(entry)) === null) {
      const device = new Device<Metrics>(plan, { secret: await keptSecret(store), values });
      const body = await device.sealed(name, rows, key);
      if (body !== null) {
        const kept: Kept = { made: Date.now(), collection: plan.collection, body: hex(body) };
        await store.once(entry, JSON.stringify(kept)); // another tab's report may be there
      }
      if (!(await this.consented())) return this.forget(); // withdrawn meanwhile
      if (body === null) return "none";
    }
    return this.send(entry);
  }

  /** Sends what waits: as a page loads, and when it is online again. How many still wait. */
  async flush(): Promise<number> {
    if (!(await this.consented())) return 0;
    const waiting: string[] = [];
    for (const entry of await this.entries()) {
      const kept = await this.kept(entry);
      // Another collection's reports are for another endpoint, which this one would refuse.
      if (typeof kept === "object" && kept.collection === this.options.plan.collection) {
        waiting.push(entry);
      }
    }
    for (const [done, entry] of waiting.entries()) {
      if ((await this.send(entry)) === "waiting") return waiting.length - done; // nor would others
    }
    return 0;
  }

  /** Where a report is kept: one of a metric and window, or any number where rows count. */
  private async entry(name: string): Promise<string> {
    const { window, metrics, one_report } = this.options.plan;
    const place = metrics.find((metric) => metric.name === name)?.place;
    const each = `${window?.fingerprint}-${place}`;
    if (one_report) return `report-${each}`;
    return `rows-${each}-${hex(await new SystemSource().bytes(8))}`;
  }

  private async entries(): Promise<string[]> {
    return (await this.options.store.names()).filter((name) => /^(report|rows)-/.test(name));
  }

  /** A report that waits, or what became of it. */
  private async kept(entry: string): Promise<Kept | Outcome> {
    const text = (await this.options.store.read(entry)) ?? "none";
    if (!text.startsWith("{")) return text as Outcome;
    const kept = JSON.parse(text) as Kept;
    const age = Math.abs(Date.now() - kept.made); // a clock may be set back
    const { keepFor = 86_400_000 } = this.options;
    return age < keepFor ? kept : this.close(entry, "expired");
  }

  private async send(entry: string): Promise<Outcome> {
    const kept = await this.kept(entry);
    if (typeof kept === "string") return kept;
    const { endpoint, backoff } = this.options;
    const wanted = async () => typeof (await this.kept(entry)) === "object"; // in any tab
    const answer = await post(endpoint, unhex(kept.body), { ...backoff, wanted });
    return answer === "waiting" ? answer : this.close(entry, answer);
  }

  private async close(entry: string, outcome: Outcome): Promise<Outcome> {
    const { store } = this.options;
    if (entry.startsWith("report-")) await store.write(entry, outcome);
    else await store.remove(entry);
    return outcome;
  }

  private async forget(): Promise<Outcome> {
    await this.options.store.remove("secret");
    for (const entry of await this.entries()) {
      if (typeof (await this.kept(entry)) === "object") await this.close(entry, "withdrawn");
    }
    return "withdrawn";
  }
}
