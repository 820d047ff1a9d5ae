/**
 * One user of a page that fetches a token and posts with it, in a browser:
 *
 *     node test/invited.mjs http://site/#SECRET ANSWER
 */

import { chromium } from "playwright-core";

const [address, answer] = process.argv.slice(2);
const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
try {
  const page = await browser.newPage();
  const posts = [];
  page.on("request", (request) => {
    if (request.method() === "POST") posts.push(new URL(request.url()).pathname);
  });
  const said = (words) =>
    page.waitForFunction((w) => document.querySelector("output").value.startsWith(w), words, { timeout: 120_000 });
  await page.goto(address);
  await page.waitForSelector("form[data-ready]");
  if (page.url().includes("#")) throw new Error("the secret stays in the address");
  if (posts.length) throw new Error("something was sent before consent");
  await page.getByLabel("Lunch").selectOption(answer);
  await page.getByRole("checkbox").check();
  await page.getByRole("button", { name: "Send" }).click();
  await said("Your report is made");
  await said("Thank you");
  process.stdout.write(JSON.stringify(posts));
} finally {
  await browser.close();
}
