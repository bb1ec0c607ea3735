import { parsedArgs, runScript, UsageError, wholeNumber } from "../scripts/script.ts";
import type { IdsOptions } from "./ids.ts";

interface Bench {
  readonly about: string;
  /** Loaded only when it is run: help is answered at once, and a client that one bench needs is not needed by the others. */
  readonly run: (
    options: IdsOptions,
  ) => Promise<readonly { readonly title: string; readonly rows: readonly object[] }[]>;
}

const BENCHES: Readonly<Record<string, Bench>> = {
  admission: {
    about: "how much limiters grant in one second, and what a refused request is charged; a simulated clock",
    run: async () => (await import("./admission.ts")).benchAdmission(),
  },
  memory: {
    about: "the memory store with one and two limits, against other limiters in memory",
    run: async () => (await import("./memory.ts")).benchMemory(),
  },
  sqlite: {
    about: "the SQLite store with two limits, one caller and 64, against a bare statement and a peer",
    run: async () => (await import("./sqlite.ts")).benchSqlite(),
  },
  kinds: {
    about: "limits that follow the calendar, against as many that do not",
    run: async () => (await import("./kinds.ts")).benchKinds(),
  },
  protocol: {
    about: "writes and trips of one bucket under load, on a simulated table",
    run: async () => (await import("./protocol.ts")).benchProtocol(),
  },
  levels: {
    about: "several levels under load, on a simulated table, against a central limiter",
    run: async () => (await import("./levels.ts")).benchLevels(),
  },
  ids: {
    about: "memory held for a million ids; --ids=N for another number, --store=memory for one store",
    run: async (options) => (await import("./ids.ts")).benchIds(options),
  },
  cli: {
    about: "a command from the prompt to the prompt, against Node that opens the file",
    run: async () => (await import("./cli.ts")).benchCli(),
  },
  service: {
    about: "an acquire over HTTP, against a bare route of the framework",
    run: async () => (await import("./service.ts")).benchService(),
  },
  "dynamodb-transport": {
    about: "one request to DynamoDB, against the SDK",
    run: async () => (await import("./dynamodb-transport.ts")).benchDynamodbTransport(),
  },
  "dynamodb-overhead": {
    about: "an acquire on DynamoDB, against its request and answer alone",
    run: async () => (await import("./dynamodb-overhead.ts")).benchDynamodbOverhead(),
  },
  dynamodb: {
    about: "whole acquires on a DynamoDB in memory, against other limiters: CPU of the client",
    run: async () => (await import("./dynamodb.ts")).benchDynamodb(),
  },
  "dynamodb-local": {
    about: "the same on DynamoDB Local (Java 17)",
    run: async () => (await import("./dynamodb.ts")).benchDynamodbLocal(),
  },
};

const USAGE = `npm run bench                  every bench, one after the other; each wants a quiet machine
npm run bench -- NAME…         only these
npm run bench -- --json        one JSON object a line, as kept in bench/results

${Object.entries(BENCHES)
  .map(([name, { about }]) => `${name.padEnd(20)} ${about}`)
  .join("\n")}
`;

await runScript(USAGE, async (args) => {
  const { values, positionals } = parsedArgs({
    args: [...args],
    allowPositionals: true,
    options: { json: { type: "boolean", default: false }, ids: { type: "string" }, store: { type: "string" } },
  });
  const unknown = positionals.find((name) => !Object.hasOwn(BENCHES, name));
  if (unknown !== undefined) {
    throw new UsageError(`Unknown bench ${JSON.stringify(unknown)}; give some of ${Object.keys(BENCHES).join(", ")}.`);
  }
  const ids = values.ids === undefined ? undefined : wholeNumber("--ids", values.ids);
  for (const [name, bench] of Object.entries(BENCHES)) {
    if (positionals.length > 0 && !positionals.includes(name)) continue;
    for (const { title, rows } of await bench.run({ ids, store: values.store })) {
      if (values.json) for (const row of rows) console.log(JSON.stringify({ bench: name, title, ...row }));
      else {
        console.log(`\n${title}`);
        console.table(rows);
      }
    }
  }
  process.exit(0);
});
