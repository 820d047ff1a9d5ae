/** Two tabs of one store, whose steps come in every order with few switches from tab to tab. */

const SWITCHES = 3;

/** A store in memory, in which a tab takes a step when it has the turn, and works on up to the next. */
class Turns {
  texts = new Map();
  tabs = new Map(); // those that have not ended, each with what lets it take its step
  steps = 0;

  store(tab) {
    const { texts } = this;
    const step = (work) => async (...given) => {
      await new Promise((ready) => this.tabs.set(tab, ready));
      return work(...given);
    };
    return {
      read: step((name) => texts.get(name) ?? null),
      once: step((name, text) => texts.get(name) ?? (texts.set(name, text), text)),
      write: step((name, text) => void texts.set(name, text)),
      remove: step((name) => void texts.delete(name)),
      names: step(() => [...texts.keys()]),
    };
  }

  /** Runs both; `order` has the steps before which the turn changes. How many had a choice. */
  async run(works, order, seen) {
    const ends = works.map((work, tab) => {
      this.tabs.set(tab, null);
      return work(this.store(tab)).finally(() => this.tabs.delete(tab));
    });
    let [turn, choices] = [0, 0];
    for (; ; this.steps++) {
      while ([...this.tabs.values()].includes(null)) await new Promise((ready) => setImmediate(ready));
      seen(this.texts);
      if (!this.tabs.size) break;
      if (this.tabs.size > 1) choices = this.steps + 1;
      if (order.includes(this.steps)) turn = 1 - turn;
      const next = this.tabs.has(turn) ? turn : 1 - turn;
      const ready = this.tabs.get(next);
      this.tabs.set(next, null);
      ready();
    }
    return [choices, (await Promise.all(ends)).flat()];
  }
}

/** [name, check]: what must hold of all that two tabs may leave, and at each step. */
export function tabChecks(client, plans, key) {
  const report = (reporter) => reporter.report("olh", [{ page: "page 7" }]);

  /** How many orders were tried; `agreed`: whether the user has consented before. */
  async function everyOrder(plan, agreed, works, check) {
    const seal = async (message) => Uint8Array.from({ length: 56 }, (_, i) => message[i % 8]);
    const quick = Object.assign(Object.create(await client.PublicKey.of(key)), { seal });
    const made = (store) =>
      new client.Reporter({ plan, key: quick, endpoint: "https://endpoint.example/", store, backoff: { tries: 1 } });
    const [real, pending] = [globalThis.fetch, [[]]];
    let tried = 0;
    try {
      for (let order; (order = pending.pop()); tried++) {
        const [turns, posted, consents, faults] = [new Turns(), new Set(), new Map(), []];
        if (agreed) await turns.run([async (store) => made(store).consent()], [], () => {});
        turns.steps = 0;
        globalThis.fetch = async (_, { body }) => {
          posted.add(client.hex(body));
          const stands = turns.texts.get("consent")?.slice(0, 16);
          if (consents.get(client.hex(body)) !== stands) faults.push("sent without its consent");
          return new Response(null, { status: 204 });
        };
        const seen = (texts) => {
          const alone = texts.has("secret") && !texts.has("consent");
          if (alone && plan.noise === "fresh") faults.push("a secret without consent");
          for (const text of texts.values()) {
            if (!text.startsWith("{")) continue;
            const { body, consent } = JSON.parse(text);
            consents.set(body, consent);
          }
        };
        const began = works.map((work) => async (store) => (await work(made(store))) ?? []);
        const [choices, outcomes] = await turns.run(began, order, seen);
        try {
          same(faults, []);
          check(turns.texts, outcomes, [...posted]);
        } catch (error) {
          throw new Error(`turns change before steps ${order}: ${error.message}`);
        }
        if (order.length === SWITCHES) continue;
        for (let at = (order.at(-1) ?? -1) + 1; at < choices; at++) pending.push([...order, at]);
      }
    } finally {
      globalThis.fetch = real;
    }
    return tried;
  }

  const entries = (texts) => [...texts].filter(([name]) => name.startsWith("report")).map(([, text]) => text);
  const cases = {
    "a second consent takes nothing from the first": [
      false,
      [async (tab) => (await tab.consent(), report(tab)), (tab) => tab.consent()],
      (texts, outcomes, posted) => {
        same([outcomes, entries(texts), posted.length, texts.has("consent")], [["sent"], ["sent"], 1, true]);
      },
    ],
    "two that consent send one report": [
      false,
      [0, 1].map(() => async (tab) => (await tab.consent(), report(tab))),
      (texts, outcomes, posted) => {
        same([outcomes, entries(texts), posted.length], [["sent", "sent"], ["sent"], 1]);
      },
    ],
    "nothing waits after a withdrawal": [
      true,
      [report, (tab) => tab.withdraw()],
      (texts, outcomes) => {
        same([...texts].filter(([name, text]) => name === "consent" || text.startsWith("{")), []);
        if (!["sent", "withdrawn", "no consent"].includes(outcomes[0])) throw new Error(outcomes[0]);
      },
    ],
    "no second report after a withdrawal and another consent": [
      true,
      [report, async (tab) => (await tab.withdraw(), await tab.consent(), report(tab))],
      (texts, outcomes, posted) => {
        same([texts.has("consent"), outcomes.length, entries(texts).length], [true, 2, 1]);
        if (posted.length > 1) throw new Error(`${posted.length} reports of one window`);
      },
    ],
  };
  return plans.flatMap((plan) =>
    Object.entries(cases).map(([name, [agreed, works, check]]) => [
      `tabs: ${name}, with ${plan.noise} noise`,
      async () => {
        const tried = await everyOrder(plan, agreed, works, check);
        if (tried < 20) throw new Error(`only ${tried} orders were tried`);
      },
    ]),
  );
}

function same(made, wanted) {
  const [left, right] = [made, wanted].map((each) => JSON.stringify(each));
  if (left !== right) throw new Error(`${left} is not ${right}`);
}
