import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { parse } from "yaml";
import { createService } from "../../src/entry/server.ts";
import { tokenOf } from "../server/service-kit.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { here } from "./in-process.ts";

const guide = readFileSync(new URL("../../docs/guide/limits-in-ci.md", import.meta.url), "utf8");

/** The commands of the guide, each as its words. */
function commandsIn(block: string): string[][] {
  return block
    .trimEnd()
    .split("\n")
    .map((line) => line.replace(/\s+#.*$/, "").split(" "));
}

for (const place of ["a store", "a service"]) {
  test(`the commands of the guide to CI end on ${place} as it says, on a pull request, on the merge and at night`, async (t) => {
    const file = tempFile(t);
    const manifest = join(file, "..", "limits.yaml");
    writeFileSync(manifest, "owner: platform\nresources:\n  gpt-4: { limits: { rpm: 100 } }\n");
    const store = ["--store", `sqlite:${file}`];
    const on = (where: readonly string[]) => (words: readonly string[]) =>
      here([...words.map((word) => (word === "limits.yaml" ? manifest : word)), ...where]);
    assert.equal((await on(store)(["init"])).code, 0);
    const run = on(place === "a store" ? store : await servedAt(t, store[1] ?? ""));
    const block = guide.split("```sh\n")[1]?.split("```")[0] ?? "";
    const commands = commandsIn(block);
    assert.deepEqual(
      commands.map(([, , command]) => command),
      ["validate", "plan", "apply", "plan", "diff"],
    );
    for (const [tool, ...words] of commands) {
      assert.equal(tool, "zae-limiter");
      // `validate` opens no store, and takes none.
      const { code, stderr } = await run(words);
      assert.equal(code, 0, `${words.join(" ")}: ${stderr}`);
    }
    await on(store)(["resource", "set-defaults", "gpt-4", "-l", "rpm:5", "--principal", "mallory"]);
    const drift = await run(["limits", "diff", "-f", "limits.yaml"]);
    assert.equal(drift.code, 1);
    assert.match(drift.stdout, /mallory/);
    assert.equal((await run(["limits", "plan", "-f", "limits.yaml", "--exit-code"])).code, 1);
    writeFileSync(manifest, "owner: platform\nresources: {}\n");
    assert.equal((await run(["limits", "apply", "-f", "limits.yaml", "--yes"])).code, 1, "it would delete");
    assert.equal((await run(["limits", "apply", "-f", "limits.yaml", "--yes", "--keep"])).code, 0);
    assert.equal((await run(["resource", "get-defaults", "gpt-4"])).code, 0, "it stays");
  });
}

/** A service on the store, and the options by which CI calls it. */
async function servedAt(t: TestContext, store: string): Promise<string[]> {
  const { token, entry } = tokenOf("ci");
  const service = await createService({ store, tokens: [entry], log: () => {} });
  const { url, close } = await service.listen({ port: 0 });
  t.after(close);
  const file = `${tempFile(t)}.token`;
  writeFileSync(file, token);
  return ["--url", url, "--token-file", file];
}

for (const [i, title] of ["over a service", "on a table"].entries()) {
  test(`the workflow of the guide ${title} is YAML, and calls commands with options that there are`, async () => {
    const workflow = parse(guide.split("```yaml\n")[i + 1]?.split("```")[0] ?? "");
    const steps: { run?: string }[] = workflow.jobs.limits.steps;
    const commands = steps.flatMap(({ run = "" }) => /^npx zae-limiter ([^|]*)/.exec(run)?.[1]?.trim() ?? []);
    assert.equal(commands.length, 4);
    for (const command of commands) {
      const words = command.replace(/"[^"]*"/g, "ci").split(" ");
      const { code, stderr } = await here(words);
      // There is no such file here; an option that is not known would have been told before.
      assert.equal(code, 2);
      assert.match(stderr, /limits\.yaml/);
      assert.doesNotMatch(stderr, /Unknown/);
    }
  });
}
