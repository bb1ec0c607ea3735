import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describePostgres } from "../postgres/postgres.ts";
import { allExamples } from "./doc-examples.ts";
import { plainEnvironment } from "./readme.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const run = promisify(execFile);
const examples = allExamples().filter(({ isOnPostgres, isStep }) => isOnPostgres && !isStep);

await describePostgres("the documents about PostgreSQL", ({ url, newSchema }) => {
  test("have examples", () => {
    assert.ok(examples.some(({ place }) => place.startsWith("docs/guide/postgres.md")));
  });

  for (const { place, text, printed } of examples) {
    test(`the example at ${place} runs on a server, ends by itself, and runs once more`, async (t) => {
      const folder = await mkdtemp(join(tmpdir(), "docs-postgres-"));
      t.after(() => rm(folder, { recursive: true }));
      await symlink(join(root, "node_modules"), join(folder, "node_modules"));
      const schema = newSchema();
      const file = join(folder, "example.mts");
      // Where the server is, and a schema of its own: nothing else is changed.
      const own = text
        .replaceAll(/postgres:\/\/[\w.@:-]*db\.internal(?::5432)?\/app/g, url)
        .replaceAll("?schema=limits", `?schema=${schema}`)
        .replaceAll('schema: "limits"', `schema: "${schema}"`);
      assert.doesNotMatch(own, /db\.internal/);
      await writeFile(file, own);
      const env = { ...plainEnvironment(), DATABASE_URL: `${url}?schema=${schema}` };
      // Rejects when the example throws, exits with an error or does not end by itself; also on the schema of the first run.
      for (let i = 0; i < 2; i++) {
        const { stdout } = await run(process.execPath, [file], { cwd: folder, env });
        if (i === 0 && printed !== undefined) assert.equal(stdout, printed);
      }
    });
  }
});
