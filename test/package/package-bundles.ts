import assert from "node:assert/strict";
import { mkdir, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { build } from "esbuild";
import { isDeep } from "../depth.ts";
import { type PackedProject, root } from "./packed-project.ts";

/** What a bundler makes of programs with the installed package: how large they are, and what they need. */
export function testBundles(project: PackedProject): void {
  const bundled = (program: string, external: string[] = [], platform: "node" | "browser" = "node") =>
    bundledIn(project, program, { external, platform });

  test("a bundle of the memory store is small, and has neither SQLite nor a client in it", async () => {
    const store = await bundled('import { openMemory } from "zae-limiter/memory"; console.log(openMemory().name);');
    // Crons are read here instead of by a library: 9 kB less.
    // 69 kB before changes of leases moved their tokens in one call, and long lists were sorted by turns: 3 kB for both. Plans, totals
    // and levels that inherit: 6 kB. Refusals that are kept: 4 kB, names that can be refused and cursors included.
    // Limits that count a measure, and changes that count from their instants, those of plans too: 6 kB.
    // Quotas cut by windows far between, plans that were deleted, changes that are made only where nothing else changed: 1 kB.
    // Buckets, entities and usage in order as they come, so that a page costs what it shows: 2 kB.
    // Rules of a row that are the same on every store, and kinds of limits in tables: 1 kB.
    // Requests that leave something for others, a table of counters, buckets that are found again: 2 kB.
    // Slots that are held, given back and renewed: 8 kB. Shadows and thresholds: 5 kB. Slots that are taken and given back in place: 2.6 kB.
    // Changes by their numbers, quotas that keep what was used, held time that is exact, slots of each limit by themselves: 3.5 kB.
    // 110.5 kB before clocks and spans in a wrong unit were told.
    // 111.3 kB before what is configured stood on the records that other stores have, too, and fields of limits in tables.
    // Namespaces that are copied from memory and to it: 3 kB.
    // Single refusals: 2.7 kB, their text, their places and what was said over time.
    // Usage of callers beside their buckets, and windows of zones: 2.7 kB.
    // The names that a change touches: 0.7 kB.
    // Limits and access with an end: 5 kB, what is in force, what comes then, and the numbers of ends among changes.
    // Ends that a clock which is ahead has found over, and that takes of a lease do not pass over: 0.3 kB.
    // Ends behind the boundaries of limits, and those that a clock which is behind shows once more: 0.2 kB.
    // Limits of a request that are not brought, and hide no end: 0.1 kB.
    // Give-backs that end at the capacity, and ends that were taken out: 0.9 kB.
    assert.ok(store.bytes < 150_200, `${store.bytes} bytes`);
    assert.deepEqual(store.imports, []);
    // With the whole engine: every method of a limiter, crons and time zones, and the leases that a memory store keeps.
    const limiter = await bundled(
      'import { Limit, RateLimiter } from "zae-limiter/memory"; console.log(await RateLimiter.open(), Limit);',
    );
    // 143 kB before waits that miss no return, refusals that look, searches by one budget, walks by turns, and errors of damage;
    // plans, totals, levels that inherit, and the calls that set them: 12 kB.
    // 162 kB before measures: what is charged and why not, in words, and leases that come to totals.
    // Refusals that are counted: 12 kB, with their store, for what is counted, written, sent again and answered.
    // Changes by their instants: 6 kB. Remedies by the surface they are read on, waits in words, slips that are refused: 6 kB.
    // Takes and give-backs that keep their time behind others, with waits in the background of a given clock: 2 kB.
    // Quotas that are cut by windows far between: 1 kB.
    // Addresses without their passwords, ids that audit refuses, changes of one system setting, and changes that are made only where
    // nothing else changed: 2 kB. Namespaces with due leases by one question, what a lease owes: 0.5 kB.
    // Rules of a row that are the same on every store, kinds in tables, pages that cost what they show: 4 kB.
    // 212 kB before streams that a lease tracks, and header fields.
    // What channels say of whole requests, waits and leases: 2 kB.
    // A share of every limit during an outage: 4 kB. Plain requests that need no generator, limits that are not checked twice: 2 kB.
    // Slots with their renewals, waits and errors: 20 kB. Shadows and thresholds: 8 kB.
    // Slots in place, and leases with slots that are kept and settled at little cost: 6 kB.
    // Limits that are left out, told and refused: 2 kB. Questions by what is stored, events of what was taken, slots that a lease takes later,
    // keys that come again, quotas that keep what was used: 8 kB.
    // 276 kB before clocks, spans and addresses in a wrong form were told.
    // 277 kB before memory stood on the records of other stores, and fields of limits in tables.
    // Namespaces that are copied from memory and to it, and found while a copy fills them: 6 kB.
    // Single refusals, which limits applied at an instant, and their words: 11 kB.
    // Usage of callers: what a take leaves to the book, what leases change of it, its rows, one list of both, totals in sums: 15 kB.
    // Limits and access with an end: 8 kB, remembered limits that go over, waits that end there, and how they are set and shown.
    // Ends that a clock ahead found over, that takes of a lease do not pass over, and after which levels conflict: 0.5 kB.
    // Boundaries of limits, behind which an end may lie, and limits of a request that are not brought: 0.4 kB.
    // Parts of several entities in one request, charges and give-backs without a lease and once per key, what events say was asked: 10 kB.
    // Charges without a lease that go by what is stored, whose keys stay taken, and leases that end without a promise: 0.2 kB.
    assert.ok(limiter.bytes < 359_700, `${limiter.bytes} bytes`);
    // What it needs of Node it asks for when it needs it.
    assert.deepEqual(limiter.imports, []);
  });

  test("a client over HTTP is bundled for a browser without the library, and without anything of Node", async () => {
    const { bytes, imports, text } = await bundled(
      'import { LimiterClient } from "zae-limiter/client"; console.log(LimiterClient);',
      [],
      "browser",
    );
    assert.deepEqual([imports, text.match(/node:\w+/g)], [[], null]);
    // A third of it are errors with their sentences.
    // Streams that a lease tracks: 3 kB.
    // Slots that are renewed, kept and lost: 1 kB. Names that are checked and encoded: 0.6 kB. Holds that end with their slots, streams that were given up: 0.6 kB.
    // 29 kB before an address that is wrong was told without its secrets; 29.4 kB before it had every method of the library.
    // 31.3 kB before single refusals, and explanations of another time.
    // 31.9 kB before limits and access had an end.
    assert.ok(bytes < 33_600, `${bytes} bytes`);
  });

  test("what is not used of the root stays out of a bundle", async () => {
    const error = await bundled('import { RateLimitExceeded } from "zae-limiter"; console.log(RateLimitExceeded);');
    // 5 kB before names were read as they were before encoding, and waits in words.
    assert.ok(error.bytes < 7_500, `${error.bytes} bytes`);
    const limit = await bundled('import { Limit } from "zae-limiter"; console.log(Limit.perMinute("rpm", 1));');
    // 22.5 kB before limits on how many are at once, shadows and percentages that are told.
    assert.ok(limit.bytes < 24_500, `${limit.bytes} bytes`);
    for (const { imports } of [error, limit]) assert.deepEqual(imports, []);
  });

  if (!isDeep) return;

  test("zae-limiter/otel says which package is missing; it and zae-limiter/mcp add little to a program with a limiter", async () => {
    await project.write("instrumented.mjs", [
      'import { instrument } from "zae-limiter/otel";',
      "instrument().stop();",
      'console.log("ok");',
    ]);
    await assert.rejects(project.node("instrumented.mjs"), /Cannot find package '@opentelemetry\/api'/);
    const scope = join(project.folder, "node_modules/@opentelemetry");
    await mkdir(scope);
    await symlink(join(root, "node_modules/@opentelemetry/api"), join(scope, "api"));
    try {
      assert.equal(await project.node("instrumented.mjs"), "ok\n");
      const external = ["@opentelemetry/api"];
      const limiter = 'import { RateLimiter } from "zae-limiter/memory"; console.log(await RateLimiter.open());';
      const alone = await bundled(limiter);
      const otel = await bundled(`${limiter} import { instrument } from "zae-limiter/otel"; instrument();`, external);
      const mcp = await bundled(`${limiter} import { limitTools } from "zae-limiter/mcp"; console.log(limitTools);`);
      assert.deepEqual(otel.imports, external);
      // Of the SDK it needs types alone.
      assert.deepEqual(mcp.imports, []);
      assert.ok(otel.bytes - alone.bytes < 7_000, `otel adds ${otel.bytes - alone.bytes} bytes`);
      assert.ok(mcp.bytes - alone.bytes < 7_000, `mcp adds ${mcp.bytes - alone.bytes} bytes`);
    } finally {
      await rm(scope, { recursive: true });
    }
  });

  test("the middleware of a framework adds little to a bundle with a limiter, and needs neither its framework nor Node", async () => {
    const limiter = 'import { RateLimiter } from "zae-limiter/memory"; console.log(await RateLimiter.open());';
    const { bytes: without } = await bundled(limiter);
    for (const name of ["express", "fastify", "hono", "fetch", "lambda"]) {
      const program = `import { rateLimit } from "zae-limiter/${name}"; console.log(rateLimit);`;
      const alone = await bundled(program);
      assert.deepEqual([alone.imports, alone.warnings], [[], []], name);
      // Most of it is what a limiter has too: errors, leases, checks of limits. 71 kB before channels told of whole requests; 73 before
      // requests on memory were decided without a promise; 75.5 before `leavePercent`;
      // 76.4 before slots, shadows and percentages that are told; 88.3 before leases with slots were settled without a ledger;
      // 91 before slots that are taken later, and callers who leave and pay; 92.8 before fields of limits stood in tables.
      assert.ok(alone.bytes < 99_500, `${name}: ${alone.bytes} bytes`);
      const { bytes } = await bundled(program + limiter);
      // 17.8 kB before that: 1.4 kB for a way without a promise beside the other. Lambda's has what reads the head of a stream besides,
      // and all of them `leavePercent`.
      assert.ok(bytes - without < 20_300, `${name} adds ${bytes - without} bytes`);
    }
  });

  test("a bundler does not fail on clients that are not installed, and the bundle says so when it needs one", async () => {
    const whole = await bundled(
      [
        'import { Limit, RateLimiter } from "zae-limiter";',
        'const limiter = await RateLimiter.open({ store: "memory" });',
        'await limiter.setSystemDefaults([Limit.perMinute("rpm", 1)]);',
        'const { ok } = await limiter.tryAcquire({ entityId: "key", resource: "api", consume: { rpm: 1 } });',
        "await limiter.close();",
        "const told = (error) => error.message;",
        'console.log(ok, await RateLimiter.open({ store: "dynamodb:limits" }).catch(told));',
        'console.log(await RateLimiter.open({ store: "postgres://localhost/app" }).catch(told));',
        'console.log(await RateLimiter.open({ store: "redis://localhost" }).catch(told));',
      ].join("\n"),
    );
    assert.deepEqual(whole.imports.filter((path) => !path.startsWith("node:")).sort(), [
      "@aws-sdk/client-dynamodb",
      "@aws-sdk/credential-providers",
      "ioredis",
      "pg",
      "undici",
    ]);
    await project.write("whole.mjs", [whole.text]);
    const [line = "", postgres = "", redis = ""] = (await project.node("whole.mjs")).split("\n");
    assert.match(
      line,
      /^true The package @aws-sdk\/client-dynamodb is not installed.*`npm install @aws-sdk\/client-dynamodb`/,
    );
    assert.match(postgres, /needs the package pg: npm install pg/);
    assert.match(redis, /needs the package ioredis: npm install ioredis/);
  });
}

/** What a bundler makes of a program of the project, minified. */
async function bundledIn(
  project: PackedProject,
  program: string,
  { external, platform }: { readonly external: string[]; readonly platform: "node" | "browser" },
) {
  const { metafile, outputFiles, warnings } = await build({
    stdin: { contents: program, resolveDir: project.folder, sourcefile: "program.js" },
    ...{ bundle: true, minify: true, format: "esm", platform, write: false, metafile: true },
    outfile: "program.mjs",
    external,
    logLevel: "silent",
  });
  const imports = Object.values(metafile.outputs).flatMap((output) => output.imports.map(({ path }) => path));
  return {
    bytes: outputFiles[0]?.contents.length ?? 0,
    imports: [...new Set(imports)],
    text: outputFiles[0]?.text ?? "",
    warnings,
  };
}
