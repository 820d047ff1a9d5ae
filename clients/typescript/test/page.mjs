/**
 * Users of the example's page, one after another in one browser, each with a storage of its own
 * (localStorage, since a page can empty that for the next user):
 *
 *     node test/page.mjs http://site/index.html http://endpoint/reports ANSWER USERS
 *
 * One more is first told another endpoint, where nobody listens, then sends the report, and withdraws.
 */

import { chromium } from "playwright-core";

const [address, endpoint, answer, users] = process.argv.slice(2);
const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(20_000);
  await page.addInitScript(() => {
    indexedDB.open = () => {
      throw new Error("blocked");
    };
  });
  await page.goto(address);
  await page.waitForSelector("form[data-ready]");

  const say = (words) => page.waitForFunction((w) => document.querySelector("output").value.startsWith(w), words);
  const send = async (to) => {
    await page.evaluate((action) => {
      document.querySelector("output").value = "";
      document.querySelector("form").dataset.endpoint = action;
    }, to);
    await page.getByRole("button", { name: "Send" }).click();
  };
  const stored = () => page.evaluate(() => JSON.stringify({ ...localStorage }));

  await page.getByLabel("Lunch").selectOption(answer);
  await page.getByRole("button", { name: "Send" }).click();
  if ((await stored()) !== "{}") throw new Error("something was kept before consent");
  await page.getByLabel("Send my randomised answer").check();
  await send("http://127.0.0.1:9/reports"); // discard: nobody listens
  await say("The endpoint cannot be reached");
  await send(endpoint);
  await say("Thank you");
  const first = await stored();
  await send(endpoint);
  await say("Thank you");
  if (first !== (await stored())) throw new Error("another report was made of one user");
  await page.getByRole("button", { name: "Withdraw" }).click();
  await say("You have withdrawn");
  if (/secret|consent/.test(await stored())) throw new Error("the secret was kept");

  const thanked = await page.evaluate(async (count) => {
    const form = document.querySelector("form");
    const output = document.querySelector("output");
    let thanked = 2;
    for (let user = 0; user < count; user++) {
      localStorage.clear();
      output.value = "";
      form.requestSubmit();
      while (output.value === "") await new Promise((again) => setTimeout(again, 1));
      thanked += Number(output.value === "Thank you.");
    }
    return thanked;
  }, Number(users));
  process.stdout.write(JSON.stringify({ thanked }));
} finally {
  await browser.close();
}
