import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { LIMITS, serviceOf } from "./service-kit.ts";

// What the guide shows runs as it stands, but for the port.

const guide = readFileSync(new URL("../../docs/guide/http-clients.md", import.meta.url), "utf8");
const metrics = readFileSync(new URL("../../docs/guide/metrics-and-alerts.md", import.meta.url), "utf8");
const run = promisify(execFile);

/** The blocks below a heading: their language and text. */
function blocksBelow(heading: string): readonly { readonly language: string; readonly text: string }[] {
  const [, section = ""] = new RegExp(`^## ${heading}\\n([\\s\\S]*?)(?=^## |(?![\\s\\S]))`, "m").exec(guide) ?? [];
  return Array.from(section.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm), ([, language = "", text = ""]) => ({
    language,
    text,
  }));
}

function hasTool(t: TestContext, command: string): boolean {
  try {
    execFileSync(command, ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    t.diagnostic(`SKIPPED: there is no ${command} on this machine, so the guide was not run.`);
    t.skip(`no ${command} (needs ${command})`);
    return false;
  }
}

test("every curl of the tour answers what the guide shows", { timeout: 120_000 }, async (t) => {
  if (!hasTool(t, "curl")) return;
  const { url } = await serviceOf(t);
  const blocks = blocksBelow("A tour by curl");
  assert.equal(blocks.filter(({ language }) => language === "sh").length, 6);
  for (const [i, { language, text }] of blocks.entries()) {
    if (language !== "sh") continue;
    const { stdout } = await run("bash", ["-euo", "pipefail", "-c", text.replaceAll("http://127.0.0.1:4780/", url)]);
    const shown = blocks[i + 1];
    if (shown?.language !== "json") assert.match(stdout, /event: hello/);
    else assert.deepEqual(partOf(JSON.parse(stdout), JSON.parse(shown.text)), JSON.parse(shown.text));
  }
});

/** Of an answer, what the guide shows of it. */
function partOf(answer: Record<string, unknown>, shown: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.keys(shown).map((name) => [name, answer[name]]));
}

test("the client in Python takes, settles, and hears of a refusal", { timeout: 120_000 }, async (t) => {
  if (!hasTool(t, "python3")) return;
  const { url, limiter } = await serviceOf(t);
  await limiter.setResourceDefaults("gpt-4", LIMITS);
  const [client, program] = blocksBelow("A client in Python").filter(({ language }) => language === "python");
  const lines = (client?.text ?? "")
    .trimEnd()
    .split("\n")
    .filter((line) => line !== "");
  assert.ok(lines.length <= 22, `${lines.length} lines`);
  const { stdout } = await run("python3", [
    "-c",
    `${client?.text}${program?.text}`.replaceAll("http://127.0.0.1:4780", url),
  ]);
  assert.match(stdout, /^429 rate_limit_exceeded retry after \d+ s\n$/);
  const [, tpm] = await limiter.available({ entityId: "key-2", resource: "gpt-4" });
  assert.equal(tpm?.available, 20_000 - 730);
});

test("the guide to metrics names none that there is not", async (t) => {
  const { call } = await serviceOf(t);
  const text = String((await call("GET", "/metrics")).body);
  const known = new Set(Array.from(text.matchAll(/^# TYPE (\S+) /gm), ([, name]) => name));
  const named = Array.from(metrics.matchAll(/zae_limiter_\w+/g), ([name]) => name.replace(/_bucket$/, ""));
  assert.ok(named.length > 8, `only ${named.length} names were found`);
  assert.deepEqual(
    named.filter((name) => !known.has(name)),
    [],
  );
});
