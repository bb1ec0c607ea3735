import { parsedArgs, runScript, UsageError, wholeNumber } from "../scripts/script.ts";
import { BASELINE, compareWithBaseline, saveBaseline } from "./baseline-file.ts";
import type { BenchOptions, BenchTable } from "./measure.ts";

interface Bench {
  readonly about: string;
  /** Whether the baseline has ratios of it. */
  readonly baseline: "followed" | "not followed";
  /** Loaded only when it is run: help is answered at once, and a client that one bench needs is not needed by the others. */
  readonly run: (options: BenchOptions) => Promise<readonly BenchTable[]>;
}

const BENCHES: Readonly<Record<string, Bench>> = {
  admission: {
    about: "how much limiters grant in one second, and what a refused request is charged; a simulated clock",
    baseline: "not followed",
    run: async () => (await import("./admission.ts")).benchAdmission(),
  },
  memory: {
    about: "the memory store with one and two limits, against other limiters in memory",
    baseline: "followed",
    run: async (options) => (await import("./memory.ts")).benchMemory(options),
  },
  sqlite: {
    about: "the SQLite store with two limits, one caller and 64, against a bare statement and a peer",
    baseline: "followed",
    run: async (options) => (await import("./sqlite.ts")).benchSqlite(options),
  },
  postgres: {
    about: "the PostgreSQL store, chains of 1, 4 and 8 levels, one caller and 64, against a bare statement and a peer",
    baseline: "followed",
    run: async (options) => (await import("./postgres.ts")).benchPostgres(options),
  },
  redis: {
    about: "the Redis store, chains of 1, 4 and 8 levels, one caller and 64, against a bare script and a peer",
    baseline: "followed",
    run: async (options) => (await import("./redis.ts")).benchRedis(options),
  },
  kinds: {
    about: "limits that follow the calendar, against as many that do not",
    baseline: "not followed",
    run: async () => (await import("./kinds.ts")).benchKinds(),
  },
  slots: {
    about: "limits on how many are at once, on memory and SQLite, against rates in their place",
    baseline: "not followed",
    run: async () => (await import("./slots.ts")).benchSlots(),
  },
  protocol: {
    about: "writes and trips of one bucket under load, on a simulated table",
    baseline: "not followed",
    run: async () => (await import("./protocol.ts")).benchProtocol(),
  },
  levels: {
    about: "several levels under load, on a simulated table, against a central limiter",
    baseline: "not followed",
    run: async () => (await import("./levels.ts")).benchLevels(),
  },
  ids: {
    about: "memory held for a million ids; --ids=N for another number, --store=memory for one store",
    baseline: "not followed",
    run: async (options) => (await import("./ids.ts")).benchIds(options),
  },
  scale: {
    about: "more ids in use, longer lists, a look of watch, against fewer; --ids=N for longer lists",
    baseline: "followed",
    run: async (options) => (await import("./scale.ts")).benchScale(options),
  },
  cli: {
    about: "a command from the prompt to the prompt, against Node that opens the file",
    baseline: "not followed",
    run: async () => (await import("./cli.ts")).benchCli(),
  },
  service: {
    about: "an acquire over HTTP, against a bare route of the framework",
    baseline: "followed",
    run: async (options) => (await import("./service.ts")).benchService(options),
  },
  edge: {
    about: "a call of Envoy over gRPC, against a bare answer of node:http2; forward auth against an acquire over HTTP",
    baseline: "not followed",
    run: async () => (await import("./edge.ts")).benchEdge(),
  },
  middleware: {
    about: "a request through Express and Fastify with a limiter, against the bare framework",
    baseline: "followed",
    run: async (options) => (await import("./middleware.ts")).benchMiddleware(options),
  },
  "dynamodb-transport": {
    about: "one request to DynamoDB, against the SDK",
    baseline: "not followed",
    run: async () => (await import("./dynamodb-transport.ts")).benchDynamodbTransport(),
  },
  "dynamodb-overhead": {
    about: "an acquire on DynamoDB, against its request and answer alone",
    baseline: "followed",
    run: async () => (await import("./dynamodb-overhead.ts")).benchDynamodbOverhead(),
  },
  dynamodb: {
    about: "whole acquires on a DynamoDB in memory, against other limiters: CPU of the client",
    baseline: "not followed",
    run: async () => (await import("./dynamodb.ts")).benchDynamodb(),
  },
  "dynamodb-local": {
    about: "the same on DynamoDB Local (Java 17)",
    baseline: "not followed",
    run: async () => (await import("./dynamodb.ts")).benchDynamodbLocal(),
  },
};

const USAGE = `npm run bench                  every bench, one after the other; each wants a quiet machine
npm run bench -- NAME…         only these
npm run bench -- --json        one JSON object a line, as kept in bench/results
npm run bench -- --compare     which ratios fell by more than their noise since bench/baseline.json; exit code 1 if one did
npm run bench -- --save        measure and write bench/baseline.json; with NAME… only their part of it

--compare and --save run the benches that are marked with *, or those of them that are named, three times, each in a process of
its own, without peers. --runs=N for another number, --baseline=FILE for another file.

${Object.entries(BENCHES)
  .map(([name, { about, baseline }]) => `${baseline === "followed" ? "*" : " "} ${name.padEnd(20)} ${about}`)
  .join("\n")}
`;

await runScript(USAGE, async (args) => {
  const { values, positionals } = parsedArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      ...{ json: { type: "boolean", default: false }, ids: { type: "string" }, store: { type: "string" } },
      ...{ compare: { type: "boolean", default: false }, save: { type: "boolean", default: false } },
      ...{ runs: { type: "string", default: "3" }, baseline: { type: "string", default: BASELINE } },
      // Of the processes that --compare and --save start: the ratios of every pair.
      ratios: { type: "boolean", default: false },
    },
  });
  const unknown = positionals.find((name) => !Object.hasOwn(BENCHES, name));
  if (unknown !== undefined) {
    throw new UsageError(`Unknown bench ${JSON.stringify(unknown)}; give some of ${Object.keys(BENCHES).join(", ")}.`);
  }
  if (values.compare || values.save) return withBaseline(values, positionals);
  const ids = values.ids === undefined ? undefined : wholeNumber("--ids", values.ids);
  const options: BenchOptions = { ids, store: values.store, extent: values.ratios ? "followed" : "all" };
  for (const [name, bench] of Object.entries(BENCHES)) {
    if (positionals.length > 0 && !positionals.includes(name)) continue;
    for (const { title, rows, followed = [] } of await bench.run(options)) {
      if (values.ratios) for (const row of followed) console.log(JSON.stringify({ bench: name, title, ...row }));
      else if (values.json) for (const row of rows) console.log(JSON.stringify({ bench: name, title, ...row }));
      else {
        console.log(`\n${title}`);
        console.table(rows);
      }
    }
  }
  process.exit(0);
});

async function withBaseline(
  values: {
    readonly compare: boolean;
    readonly save: boolean;
    readonly json: boolean;
    readonly runs: string;
    readonly baseline: string;
    readonly ids?: string;
    readonly store?: string;
  },
  named: readonly string[],
): Promise<number> {
  if (values.compare && values.save) throw new UsageError("Both --compare and --save were given; give one of them.");
  for (const option of ["ids", "store", "json"] as const) {
    if (values[option]) throw new UsageError(`--${option} is not for --compare and --save; leave it out.`);
  }
  const followed = Object.keys(BENCHES).filter((name) => BENCHES[name]?.baseline === "followed");
  const other = named.find((name) => !followed.includes(name));
  if (other !== undefined) {
    throw new UsageError(`The baseline has no ratios of ${other}; give some of ${followed.join(", ")}.`);
  }
  const runs = wholeNumber("--runs", values.runs);
  if (runs === 0) throw new UsageError("--runs is 0; give at least 1.");
  const benches = followed.filter((name) => named.length === 0 || named.includes(name));
  const job = { file: values.baseline, benches, runs };
  return values.save ? saveBaseline(job) : compareWithBaseline(job);
}
