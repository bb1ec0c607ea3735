import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { tempFile } from "../sqlite/temp-store.ts";
import { here } from "./in-process.ts";

/** The commands below a heading of the guide, each as its words. */
function commandsBelow(heading: string): string[][] {
  const guide = readFileSync(new URL("../../docs/guide/operating.md", import.meta.url), "utf8");
  const block = guide.split(`## ${heading}\n`)[1]?.split("```sh\n")[1]?.split("```")[0] ?? "";
  return block
    .trimEnd()
    .split("\n")
    .map((line) => (line.replace(/\s+#.*$/, "").match(/'[^']*'|\S+/g) ?? []).map((word) => word.replaceAll("'", "")));
}

async function onFile(t: TestContext) {
  const store = ["--store", `sqlite:${tempFile(t)}`];
  const run = (...args: string[]) => here([...args, ...store]);
  const json = async (line: string, code: number) => {
    const ran = await run(...line.split(" "), "--json");
    assert.equal(ran.code, code, `${line}: ${ran.stdout}${ran.stderr}`);
    return JSON.parse(ran.stdout || ran.stderr);
  };
  await run("init");
  return { run, json };
}

test("the budget of the guide binds: the keys of the project spend it, and then are refused by it", async (t) => {
  const { run, json } = await onFile(t);
  for (const [tool, ...args] of commandsBelow("Who is limited, and by what")) {
    assert.equal(tool, "zae-limiter");
    const { code, stderr } = await run(...args);
    assert.equal(code, 0, `${args.join(" ")}: ${stderr}`);
  }
  const month = async () =>
    (await json("available key-1 gpt-4", 0)).items.find(({ limit }: { limit: string }) => limit === "month");
  assert.deepEqual(await month(), {
    ...{
      entityId: "proj-1",
      resource: "gpt-4",
      limit: "month",
      counts: "tpm",
      available: 1_999_500,
      capacity: 2_000_000,
    },
  });
  await json("bucket reset proj-1 gpt-4 -l tpm", 0);
  // Of a smaller month 500 are used already: then the rate has room, and the month has none.
  await run("entity", "set-limits", "proj-1", "-l", "tpm:10k/min:20k", "-l", "month:1100,reset=monthly,counts=tpm");
  const refused = await json("acquire key-1 gpt-4 -c rpm=1 -c tpm=1101", 2);
  assert.equal(refused.error.code, "amount_above_capacity");
  const short = await json("acquire key-1 gpt-4 -c rpm=1 -c tpm=600", 0);
  assert.equal(short.ok, true);
  const over = await json("acquire key-1 gpt-4 -c rpm=1 -c tpm=100", 1);
  assert.deepEqual([over.primary.entityId, over.primary.limit, over.primary.counts], ["proj-1", "month", "tpm"]);
  const told = await run("explain", "key-1", "gpt-4", "-c", "tpm=100");
  assert.match(
    told.stdout,
    /key-1 may take 0 more tpm now; 100 fit in .* because month of proj-1, which is charged too,/,
  );
});

test("without -c a request is counted where something counts requests, dry and for good", async (t) => {
  const { run, json } = await onFile(t);
  await run("resource", "set-defaults", "api", "-l", "rpm:1/day:5,counts=requests", "-l", "tpm:1/day:9");
  await run("resource", "set-defaults", "web", "-l", "bytes:5");
  await run("entity", "create", "a");
  const dry = await json("acquire a api --dry-run", 0);
  assert.deepEqual([dry.ok, dry.consumed], [true, { requests: 1 }]);
  assert.deepEqual((await json("acquire a api", 0)).consumed, { requests: 1 });
  assert.deepEqual((await json("acquire a api -c requests=2,tpm=3", 0)).consumed, { requests: 2, tpm: 3 });
  assert.equal((await json("acquire a api -c requests=3", 1)).primary.limit, "rpm");
  assert.equal((await json("acquire a web", 2)).error.code, "consume_empty");
  assert.equal((await json("acquire a web --dry-run", 2)).error.code, "consume_empty");
  assert.match((await json("acquire a api -c rpm=1", 2)).error.message, /rpm counts requests; name requests/);
  const { items } = await json("bucket list -r api", 0);
  assert.deepEqual(
    items.map(({ limit, counts, available }: Record<string, unknown>) => [limit, counts, available]),
    [
      ["rpm", "requests", 2],
      ["tpm", "tpm", 6],
    ],
  );
  assert.match((await run("available", "a", "api")).stdout, /LIMIT +COUNTS +AVAILABLE/);
  assert.match((await run("resource", "get-defaults", "api")).stdout, /counts=requests/);
});

test("what belongs to a bucket says that there is none where only a parent has limits", async (t) => {
  const { run, json } = await onFile(t);
  await run("entity", "create", "proj-1");
  await run("entity", "create", "key-1", "--parent", "proj-1");
  await run("entity", "set-limits", "proj-1", "-l", "credits:5/day");
  assert.equal((await json("acquire key-1 gpt-4 -c credits=2 --allow-unknown", 0)).ok, true);
  assert.match((await run("explain", "key-1", "gpt-4")).stdout, /key-1 may take up to 3 credits from gpt-4 now/);
  for (const line of ["bucket show key-1 gpt-4", "bucket top-up key-1 gpt-4 -a credits=1 --dry-run --allow-unknown"]) {
    assert.equal((await json(line, 4)).error.code, "limits_missing", line);
  }
});

test("what a total leaves is in the sentence of explain, asked for or not", async (t) => {
  const { run, json } = await onFile(t);
  await run("resource", "set-defaults", "large", "-l", "tokens:1000/hour", "--applies-to", "callers");
  await run("entity", "create", "acme");
  await run("entity", "create", "acme-web", "--parent", "acme");
  await run("entity", "set-totals", "acme", "-l", "cents:100,reset=monthly");
  await json("acquire acme-web large -c tokens=400 -c cents=94", 0);
  const { stdout: most } = await run("explain", "acme-web", "large");
  assert.match(most, /acme-web may take up to \d+ tokens and up to 6 cents from large now\./);
  const { stdout: refused } = await run("explain", "acme-web", "large", "-c", "cents=40");
  assert.match(
    refused,
    /acme-web may take 6 more cents now; 40 fit in .*, because acme, which is charged too, holds 6 of 100 and is full again at /,
  );
});
