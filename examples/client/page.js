/** The page's part: it asks for consent, seals the answer, and says what became of it. */

import { browserStore, PublicKey, Reporter, WindowKeys } from "./client/index.js";

const form = document.querySelector("form");
const output = document.querySelector("output");

async function text(name) {
  const answer = await fetch(name);
  if (!answer.ok) throw new Error(`the site has no ${name}`);
  return answer.text();
}

/** A function that makes a reporter: each call reads what is kept, as another tab has left it. */
async function reporters() {
  // What `hushbeam check plan.yaml --json --window ...` printed, and the collector's public key.
  const [plan, pem, store] = await Promise.all([text("plan.json"), text("key.pem"), browserStore()]);
  const options = { plan: JSON.parse(plan), key: await PublicKey.of(pem), store };
  if (options.plan.tokens) {
    // Who invites a device has enrolled the digest of what stands after the # of its address.
    const invitation = location.hash.slice(1);
    history.replaceState(null, "", location.pathname);
    const known = (await store.read("credential")) ?? (invitation && (await store.once("credential", invitation)));
    if (!known) throw new Error("open the address that you were sent: this one has no invitation in it");
    const keys = await WindowKeys.of(await text("keys.json"), await text("signing.public.pem"), store);
    const { issuer, spread } = form.dataset;
    options.tokens = { issuer, credential: known, keys, spread: Number(spread) };
  }
  return () => new Reporter({ ...options, endpoint: form.dataset.endpoint, backoff: { tries: 2 } });
}

function failed(error) {
  output.value = `This page cannot send anything: ${error.message}.`;
}

try {
  const reporter = await reporters();
  const later = reporter().options.plan.tokens;
  const says = {
    sent: "Thank you.",
    refused: "The endpoint has refused the report.",
    waiting: later
      ? "Your report is made. It goes at a moment that is drawn: leave this page open, or come back."
      : "The endpoint cannot be reached: the report waits, and goes when you come back.",
    expired: "The endpoint could not be reached in time.",
    withdrawn: "You have withdrawn.",
    "no consent": "You have withdrawn.",
    none: "There is nothing to report.",
  };

  const report = async () => {
    const outcome = await reporter().report("lunch", [{ lunch: form.elements.lunch.value || null }]);
    output.value = says[outcome];
    // Moments of tokens and reports come by themselves; what is sent was made the first time.
    if (later && outcome === "waiting") setTimeout(() => report().catch(failed), 5000);
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    reporter().consent().then(report).catch(failed);
  });
  form.elements.withdraw.addEventListener("click", async () => {
    await reporter().withdraw();
    output.value = says.withdrawn;
  });
  await reporter().flush();
  addEventListener("online", () => reporter().flush());
  form.elements.answer.disabled = false;
  form.dataset.ready = "";
} catch (error) {
  form.hidden = true;
  failed(error);
}
