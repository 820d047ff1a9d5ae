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
  const checks = {
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
