/** Tokens: when they are fetched and spent, and that a lost answer costs none. */

import { answered, same, texts } from "./reporter.mjs";

const ENDPOINT = "https://endpoint.example/reports";
const ISSUER = "https://issuer.example";
const DAY = 86_400_000;

/** [name, check]; `opened` gives a new and empty store, `again` the same as after a reload. */
export function walletChecks(client, told, pem, opened, again) {
  const { hex, unhex } = client;
  const [vector] = told.tokens;
  const plan = { ...told.plan, tokens: vector.count };
  const rows = [{ hour: 3 }];
  const entry = `tokens-${plan.window.fingerprint}`;
  const keys = { key: () => unhex(vector.public) };
  const made = async (store, more = {}) =>
    new client.Reporter({
      plan,
      key: await client.PublicKey.of(pem),
      endpoint: ENDPOINT,
      store,
      backoff: { tries: 2, first: 1 },
      tokens: { issuer: ISSUER, credential: "a credential", keys, spread: DAY / 4, ...more },
    });
  /** A reporter whose user has consented, and whose request is that of the vector, and due. */
  const begun = async (store, more) => {
    const reporter = await made(store, more);
    await reporter.consent();
    await store.write(entry, JSON.stringify({ due: 0, key: vector.key }));
    return reporter;
  };
  const later = async (work) => {
    const now = Date.now;
    Date.now = () => now() + DAY / 2;
    try {
      return await work();
    } finally {
      Date.now = now;
    }
  };
  const [{ texts: said, ...words }] = told.strings;
  const party = "https://strings.example";
  const paid = client.encoded(unhex(vector.tokens[0]));
  const draws = `draws-report-${plan.window.fingerprint}-0`;
  const { collection } = told.plan;
  const drawn = { made: Date.now(), collection, consent: "0".repeat(16), body: words.key };
  /** The same of strings: whose draws and secret are those of their vector. */
  const beginning = async (store, more = {}, reloaded = false) => {
    const sizes = { events: { slots: words.slots, most: words.most } };
    const own = { key: (_, role) => unhex(role === "strings" ? words.public : vector.public) };
    const reporter = new client.Reporter({
      plan: told.plan,
      key: await client.PublicKey.of(pem),
      endpoint: ENDPOINT,
      store,
      backoff: { tries: 2, first: 1 },
      strings: { issuer: `${ISSUER}/queries`, credential: "a credential", keys: own, party, sizes, spread: 0 },
      ...more,
    });
    if (reloaded) return reporter;
    await store.write("consent", "0".repeat(16) + told.secret);
    await store.write(`queries-${plan.window.fingerprint}`, JSON.stringify({ due: 0, key: vector.key }));
    await store.write(draws, JSON.stringify(drawn));
    return reporter;
  };
  const [fetched, evaluated] = [vector.answer, words.answer].map(unhex);
  const checks = {
    "strings are sealed by their party, for a token of its own kind, and posted": async () => {
      const store = await opened();
      const reporter = await beginning(store);
      const asked = await answered([fetched, evaluated, 204], async () => {
        same(await reporter.strings("events", said), "sent");
        same(await reporter.strings("events", ["other"]), "sent"); // it is made once
        same(await reporter.flush(), 0);
      });
      const places = [`${ISSUER}/queries/tokens`, `${party}/strings`].map((at) => `${at}/${plan.window.name}`);
      same(asked.map(({ endpoint }) => endpoint), [...places, ENDPOINT]);
      same(asked.map(({ body }) => hex(body)), [vector.elements, words.elements, words.report]);
      same([asked[1].init.headers, asked[2].init.headers], [{ "Hushbeam-Token": paid }, undefined]);
      same((await store.names()).includes(draws), false);
    },
    "a lost answer of the party is asked for by the same elements, also after a reload": async () => {
      const store = await opened();
      const reporter = await beginning(store);
      const asked = await answered([fetched, 0, 503, 401, evaluated, 0, 0, 204], async () => {
        same(await reporter.strings("events", said), "waiting");
        same(JSON.stringify(await texts(store)).includes(said[0]), false);
        const later = await beginning(await again(store), {}, true);
        same(await later.strings("events", said), "waiting");
        same(await later.flush(), 0);
      });
      const queries = asked.filter(({ endpoint }) => endpoint.startsWith(party));
      same(queries.length, 4);
      same([...new Set(queries.map(({ body }) => hex(body)))], [words.elements]);
      same([...new Set(asked.slice(-3).map(({ body }) => hex(body)))], [words.report]);
    },
    "strings wait for their token's moment, and nothing is kept of them": async () => {
      const store = await opened();
      const reporter = await made(store);
      const strings = { ...(await beginning(await opened())).options.strings, spread: DAY / 4 };
      const other = new client.Reporter({ ...reporter.options, strings });
      await other.consent();
      const asked = await answered([204], async () => {
        same(await other.strings("events", said), "waiting");
        same(await other.flush(), 0);
      });
      same(asked.length, 0);
      same(JSON.stringify(await texts(store)).includes(said[0]), false);
      const kept = (await store.names()).filter((name) => /^(tokens|queries)-/.test(name));
      same(kept.length, 2);
    },
    "who asks with other strings is refused, and a report that another tab has made stays": async () => {
      const store = await opened();
      const reporter = await beginning(store);
      const made = await answered([fetched, 409], async () => {
        same(await reporter.strings("events", said), "refused");
        same(await reporter.strings("events", said), "refused");
      });
      same(made.length, 2);
      const tabs = await opened();
      const [one, two] = [await beginning(tabs), await beginning(tabs)];
      const meanwhile = async () => same(await one.strings("events", said), "sent");
      const asked = await answered([fetched, meanwhile, evaluated, 204, 409], async () => {
        same(await two.strings("events", said), "sent");
      });
      same(asked.filter(({ endpoint }) => endpoint === ENDPOINT).length, 1);
    },
    "bytes that blind strings are forgotten with their consent, window or answer": async () => {
      const report = draws.slice("draws-".length);
      const old = draws.replace(plan.window.fingerprint, "0".repeat(32));
      const left = async (store) => [await store.read(draws), await store.read(old), await store.read(report)];
      const seen = async (store) => JSON.stringify(await texts(store)).includes(words.key);
      const asking = async () => {
        const store = await opened();
        const reporter = await beginning(store);
        await answered([fetched, 0, 0], async () => same(await reporter.strings("events", said), "waiting"));
        same(await seen(store), true); // a reload asks by the same
        return [store, reporter];
      };
      const [withdrawn, one] = await asking();
      await one.withdraw();
      same(await left(withdrawn), [null, null, "withdrawn"]);
      same(await seen(withdrawn), false);
      await one.consent(); // the token was spent on them: no others are drawn
      await answered([], async () => same(await one.strings("events", said), "withdrawn"));

      const [killed, two] = await asking(); // as if another tab, or a crash, had cut a withdrawal
      await killed.remove("consent");
      await answered([], async () => same(await two.flush(), 0));
      same(await left(killed), [null, null, "withdrawn"]);

      const [given, three] = await asking(); // and the user has consented again
      await given.write("consent", "1".repeat(16) + told.secret);
      await answered([], async () => same(await three.strings("events", said), "withdrawn"));
      same(await left(given), [null, null, "withdrawn"]);

      const [ended, four] = await asking();
      await ended.write(old, JSON.stringify(drawn)); // of a window that has ended unanswered
      await answered([], async () => same(await four.flush(), 0));
      same((await left(ended)).map((text) => text !== null), [true, false, false]);
      await later(async () => {
        const short = await beginning(ended, { keepFor: 1 }, true);
        await answered([], async () => same(await short.flush(), 0));
      });
      same(await left(ended), [null, null, "expired"]);

      const [crashed, five] = await asking(); // between the report and the end of its bytes
      await crashed.write(report, "sent");
      await answered([], async () => same(await five.flush(), 0));
      same(await left(crashed), [null, null, "sent"]);
    },
    "strings that are withdrawn while they are asked leave no bytes": async () => {
      const store = await opened();
      const reporter = await beginning(store);
      const meanwhile = async () => reporter.withdraw();
      const asked = await answered([fetched, meanwhile, evaluated], async () => {
        same(await reporter.strings("events", said), "withdrawn");
      });
      same(asked.some(({ endpoint }) => endpoint === ENDPOINT), false);
      same(JSON.stringify(await texts(store)).includes(words.key), false);
      same((await store.names()).includes(draws), false);
    },
    "strings need a party, a consent and a user": async () => {
      const store = await opened();
      const refusals = [
        [{ strings: undefined }, "events", /say who evaluates its strings/],
        [{}, "hours", /say who evaluates its strings/],
        [{}, "none", /no metric none/],
        [{ plan: { ...told.plan, one_report: false } }, "events", /nobody's/],
      ];
      for (const [more, name, words] of refusals) {
        const reporter = await beginning(store, more);
        const message = await reporter.strings(name, said).catch((error) => error.message);
        same([name, words.test(message)], [name, true]);
      }
      const reporter = await beginning(store);
      await store.remove("consent");
      same(await reporter.strings("events", said), "no consent");
    },
    "nothing is fetched before consent, nor before its moment": async () => {
      const store = await opened();
      const reporter = await made(store);
      const asked = await answered([204], async () => {
        same(await reporter.flush(), 0);
        same(await store.names(), []);
        await reporter.consent();
        same(await reporter.flush(), 0);
        same(await reporter.report("events", rows), "waiting");
        same(await (await made(await again(store))).flush(), 1);
      });
      same(asked.length, 0);
      const { due } = JSON.parse(await store.read(entry));
      same(due > Date.now() && due < Date.now() + DAY / 4, true);
    },
    "a lost answer is fetched again by the same elements, also after a reload": async () => {
      const store = await opened();
      const reporter = await begun(store);
      const asked = await answered([0, 0, 404, 503, unhex(vector.answer)], async () => {
        same(await reporter.flush(), 0);
        same(await (await made(await again(store))).flush(), 0);
        same(await (await made(await again(store))).flush(), 0);
        same(await reporter.flush(), 0); // they are there
      });
      same(asked.length, 5);
      for (const { endpoint, init, body } of asked) {
        same(endpoint, `${ISSUER}/tokens/${plan.window.name}`);
        same(init.headers, { Authorization: "Bearer a credential" });
        same([init.credentials, init.referrerPolicy, init.redirect], ["omit", "no-referrer", "error"]);
        same(hex(body), vector.elements);
      }
      same((await store.read(entry)).includes(vector.key), false);
    },
    "a report is sent with its token, at another moment": async () => {
      const store = await opened();
      const reporter = await begun(store);
      const asked = await answered([unhex(vector.answer), 0, 503, 204], async () => {
        same(await reporter.report("events", rows), "waiting");
        same(await reporter.flush(), 1);
        await later(async () => {
          same(await (await made(await again(store))).flush(), 1);
          same(await (await made(await again(store))).flush(), 0);
          same(await reporter.report("events", rows), "sent");
        });
      });
      same(asked.map(({ endpoint }) => endpoint === ENDPOINT), [false, true, true, true]);
      const token = client.encoded(unhex(vector.tokens[0]));
      for (const { init } of asked.slice(1)) same(init.headers, { "Hushbeam-Token": token });
      same(new Set(asked.slice(1).map(({ body }) => hex(body))).size, 1);
    },
    "a report without a token left is refused, and another's is not taken": async () => {
      const store = await opened();
      const reporter = await begun(store, { spread: 0 });
      const asked = await answered([unhex(vector.answer), 204], async () => {
        same(await reporter.report("events", rows), "sent");
        same(await reporter.report("hours", rows), "refused");
        same(await reporter.flush(), 0);
      });
      same(asked.length, 2);
    },
    "an answer that is not of the published key is not taken": async () => {
      const store = await opened();
      const reporter = await begun(store, { keys: { key: () => unhex(told.strings[0].public) } });
      await answered([unhex(vector.answer)], async () => {
        const said = await reporter.flush().catch((error) => error.message);
        same(/not of the published key/.test(said), true);
      });
      same(JSON.parse(await store.read(entry)).key, vector.key);
    },
    "an issuer that does not know the device is asked again, and one that refuses is not": async () => {
      const store = await opened();
      const reporter = await begun(store, { spread: 0 });
      const asked = await answered([401, 401, 409], async () => {
        same(await reporter.report("events", rows), "waiting");
        same(await reporter.flush(), 0);
        same(await reporter.report("events", rows), "refused");
      });
      same(asked.length, 3);
      same(Object.values(await texts(store)).includes("refused"), true);
    },
    "tokens outlast a withdrawal": async () => {
      const store = await opened();
      const reporter = await begun(store, { spread: 0 });
      await answered([unhex(vector.answer)], () => reporter.flush());
      await reporter.withdraw();
      await reporter.consent();
      const asked = await answered([204], async () =>
        same(await reporter.report("events", rows), "sent"),
      );
      same(asked.length, 1);
    },
    "a plan with tokens needs to be told whose": async () => {
      const store = await opened();
      const key = await client.PublicKey.of(pem);
      try {
        new client.Reporter({ plan, key, endpoint: ENDPOINT, store });
      } catch (error) {
        return same(/asks for tokens/.test(error.message), true);
      }
      throw new Error("was not refused");
    },
  };
  return Object.entries(checks).map(([name, check]) => [`tokens: ${name}`, check]);
}
