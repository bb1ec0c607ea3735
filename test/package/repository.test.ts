import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { PARTS } from "../../scripts/test-parts.ts";

// What contributors read and what the platform runs: it parses, and what it names is there.

const root = fileURLToPath(new URL("../..", import.meta.url));
const read = (path: string) => readFileSync(join(root, path), "utf8");
const manifest = JSON.parse(read("package.json")) as {
  readonly scripts: Readonly<Record<string, string>>;
  readonly engines: { readonly node: string };
};

interface Job {
  readonly permissions?: Readonly<Record<string, string>>;
  readonly needs?: string;
  readonly uses?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly strategy?: { readonly matrix: { readonly node?: readonly string[]; readonly part?: readonly string[] } };
  readonly steps?: readonly {
    readonly run?: string;
    readonly uses?: string;
    readonly with?: Record<string, unknown>;
  }[];
}

interface Workflow {
  readonly on: Readonly<Record<string, { readonly tags?: readonly string[] } | null>>;
  readonly permissions: Readonly<Record<string, string>>;
  readonly jobs: Readonly<Record<string, Job>>;
}

const workflow = (name: string) => parse(read(`.github/workflows/${name}.yml`)) as Workflow;
const commands = ({ steps = [] }: Job) => steps.flatMap(({ run }) => (run === undefined ? [] : [run]));

test("continuous integration runs .ci/run for users of Node 22 and 24, each part of the deep tests, and the package on the oldest Node", () => {
  const { on, permissions, jobs } = workflow("ci");
  for (const event of ["pull_request", "push", "schedule", "workflow_call"]) assert.ok(event in on, event);
  assert.deepEqual(permissions, { contents: "read" });
  const { test: tests, deep, oldest } = jobs as { test: Job; deep: Job; oldest: Job };
  assert.ok(commands(tests).includes(".ci/run readme"));
  assert.deepEqual(tests.strategy?.matrix.node, ["22", "24"]);
  assert.ok(commands(deep).includes(`.ci/run \${{ matrix.part }}`));
  assert.deepEqual(deep.strategy?.matrix.part, PARTS);
  for (const { steps = [] } of [tests, deep]) assert.ok(steps.some(({ uses }) => uses === "./.github/actions/engines"));
  // Without these the tests of the package would run on the Node that npm scripts run on, whatever the job says.
  assert.equal(tests.env?.ZAEL_TEST_NODE_VERSION, `\${{ matrix.node }}`);
  assert.match(read(".ci/run"), /^ {2}ZAEL_TEST_NODE="\$\(command -v node\)"$/m);
  assert.equal(`>=${oldest.env?.ZAEL_TEST_NODE_VERSION}`.replace(/\.0$/, ""), manifest.engines.node);
  assert.ok(
    commands(oldest).some((run) => /^ZAEL_TEST_NODE=\S+ .*npm run test:deep -- test\/package\/package$/.test(run)),
  );
  for (const needed of ["actions/setup-java", "actions/setup-python", "actions/cache"])
    assert.ok(read(".github/actions/engines/action.yml").includes(`uses: ${needed}@`), needed);
});

test(".ci/run can be run", () => {
  assert.ok((statSync(join(root, ".ci/run")).mode & 0o111) !== 0);
});

test("a tag is published with provenance, after all tests, by a job that may do nothing else", () => {
  const { on, permissions, jobs } = workflow("release");
  assert.deepEqual(on, { push: { tags: ["v*"] } });
  assert.deepEqual(permissions, { contents: "read" });
  const { test: tests, publish } = jobs as { test: Job; publish: Job };
  assert.equal(tests.uses, "./.github/workflows/ci.yml");
  assert.equal(publish.needs, "test");
  assert.deepEqual(publish.permissions, { contents: "read", "id-token": "write" });
  const runs = commands(publish);
  const [checked, published] = ["scripts/release-check.ts", "npm publish --provenance"].map((what) =>
    runs.findIndex((run) => run.includes(what)),
  ) as [number, number];
  assert.ok(checked >= 0 && checked < published, runs.join("\n"));
});

test("every action is pinned to a commit, with its version beside it, and gets no credentials to keep", () => {
  for (const file of globSync([".github/workflows/*.yml", ".github/actions/*/action.yml"], { cwd: root })) {
    const used = [...read(file).matchAll(/^ *-? *uses: (?!\.\/)(.+)$/gm)].map(([, action = ""]) => action);
    assert.ok(used.length > 0, file);
    for (const action of used)
      assert.match(action, /^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/, `${file}: ${action}`);
    for (const { steps = [] } of Object.values((parse(read(file)) as Partial<Workflow>).jobs ?? {})) {
      for (const { uses = "", with: given } of steps) {
        if (uses.startsWith("actions/checkout@")) assert.equal(given?.["persist-credentials"], false, file);
      }
    }
  }
});

test("a bug is asked for its seed and story; every form of an issue has a name and fields of its own", () => {
  interface Form {
    readonly name: string;
    readonly description: string;
    readonly body: readonly {
      readonly id?: string;
      readonly type: string;
      readonly attributes: { readonly label?: string };
    }[];
  }
  for (const file of globSync(".github/ISSUE_TEMPLATE/*.yml", { cwd: root })) {
    const form = parse(read(file)) as Form;
    if (file.endsWith("config.yml")) continue;
    assert.ok(form.name.length > 0 && form.description.length > 0, file);
    const fields = form.body.filter(({ type }) => type !== "markdown");
    const ids = fields.map(({ id }) => id);
    assert.equal(new Set(ids).size, fields.length, file);
    for (const { id, attributes } of fields) assert.ok(id !== undefined && attributes.label !== undefined, file);
    if (file.endsWith("bug.yml"))
      for (const needed of ["seed", "story", "store"]) assert.ok(ids.includes(needed), needed);
  }
});

const PAGES = [
  ...["CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md"],
  ...[".github/pull_request_template.md", ".github/ISSUE_TEMPLATE/bug.yml", ".github/ISSUE_TEMPLATE/feature.yml"],
];

/** Files of this repository as a page names them; those with a placeholder are none, nor are filters of tests. */
function pathsIn(text: string): string[] {
  const named = /(?<![\w./<>])((?:src|test|scripts|bench|docs|examples|\.ci|\.github)\/[\w./-]*\w)(?![\w<…]|\/<|\.\.)/g;
  return [...text.replaceAll(/npm test -- [^`\n]+/g, "").matchAll(named)].map(([, path = ""]) => path);
}

test("every file that these pages name is there", () => {
  assert.deepEqual(pathsIn("`src/cli/x.ts` and docs/adr. (`src/a/<group>-<verb>.ts`)"), ["src/cli/x.ts", "docs/adr"]);
  assert.ok(pathsIn(read("CONTRIBUTING.md")).length > 60);
  // What a contributor makes, by the recipe that names it.
  const made = ["test/simulation/stories-found/world-what-happens-in-words.json"];
  for (const page of PAGES) {
    const missing = pathsIn(read(page)).filter((path) => !made.includes(path) && !existsSync(join(root, path)));
    assert.deepEqual(missing, [], page);
  }
});

test("every link of these pages leads to a file, or to the covenant", () => {
  for (const page of PAGES.filter((name) => name.endsWith(".md"))) {
    for (const [, target = ""] of read(page).matchAll(/\]\(([^()\s]+)\)/g)) {
      if (/^https:\/\/www\.contributor-covenant\.org\//.test(target)) continue;
      assert.ok(existsSync(join(root, target)), `${page}: ${target}`);
    }
  }
});

test("every script that these pages name is one of package.json, and every filter matches a test", () => {
  const tests = globSync(["src/**/*.test.ts", "test/**/*.test.ts"], { cwd: root });
  for (const page of PAGES) {
    for (const [, name = ""] of read(page).matchAll(/npm run ([\w:-]+)/g))
      assert.ok(name in manifest.scripts, `${page}: ${name}`);
    for (const [, args = ""] of read(page).matchAll(/npm test -- ([^`\n]+)/g)) {
      for (const part of args.split(" ").filter((arg) => !arg.startsWith("-"))) {
        assert.ok(
          tests.some((file) => file.includes(part)),
          `${page}: no test file matches ${part}`,
        );
      }
    }
  }
});

test("every script of package.json that people call is in CONTRIBUTING.md", () => {
  // Called by npm itself, or by a maintainer of the image.
  const others = ["prepack", "image-steps", "docs"];
  const text = read("CONTRIBUTING.md");
  const unnamed = Object.keys(manifest.scripts).filter(
    (name) => !others.includes(name) && !new RegExp(`npm (run )?${name}\\b`).test(text),
  );
  assert.deepEqual(unnamed, []);
});

test("no page invents an address: reports go through the platform", () => {
  for (const page of PAGES) assert.doesNotMatch(read(page), /[\w.+-]+@[\w-]+\.\w|mailto:/, page);
  assert.match(read("SECURITY.md"), /Report a vulnerability/);
});
