import { benchAdmission } from "./admission.ts";
import { benchCli } from "./cli.ts";
import { benchDynamodb, benchDynamodbLocal } from "./dynamodb.ts";
import { benchDynamodbOverhead } from "./dynamodb-overhead.ts";
import { benchDynamodbTransport } from "./dynamodb-transport.ts";
import { benchIds } from "./ids.ts";
import { benchKinds } from "./kinds.ts";
import { benchLevels } from "./levels.ts";
import { benchMemory } from "./memory.ts";
import { benchProtocol } from "./protocol.ts";
import { benchService } from "./service.ts";
import { benchSqlite } from "./sqlite.ts";

const benches: Readonly<Record<string, () => Promise<{ title: string; rows: readonly object[] }[]>>> = {
  admission: benchAdmission,
  memory: benchMemory,
  sqlite: benchSqlite,
  kinds: benchKinds,
  protocol: benchProtocol,
  levels: benchLevels,
  ids: benchIds,
  cli: benchCli,
  service: benchService,
  "dynamodb-transport": benchDynamodbTransport,
  "dynamodb-overhead": benchDynamodbOverhead,
  dynamodb: benchDynamodb,
  "dynamodb-local": benchDynamodbLocal,
};

const args = process.argv.slice(2);
const json = args.includes("--json");
const names = args.filter((arg) => !arg.startsWith("--"));
for (const name of names) {
  if (!(name in benches)) {
    console.error(`Unknown bench ${JSON.stringify(name)}; known: ${Object.keys(benches).join(", ")}.`);
    process.exit(2);
  }
}
for (const [name, bench] of Object.entries(benches)) {
  if (names.length > 0 && !names.includes(name)) continue;
  for (const { title, rows } of await bench()) {
    if (json) for (const row of rows) console.log(JSON.stringify({ bench: name, title, ...row }));
    else {
      console.log(`\n${title}`);
      console.table(rows);
    }
  }
}
process.exit(0);
