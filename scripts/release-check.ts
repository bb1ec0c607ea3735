import { readFileSync } from "node:fs";
import { parsedArgs, runScript, UsageError } from "./script.ts";

const USAGE = `node scripts/release-check.ts TAG      whether TAG, package.json and CHANGELOG.md name one version that can be published

The release workflow runs it on the tag that was pushed.
`;

interface Release {
  readonly tag: string;
  readonly manifest: { readonly version: string; readonly repository?: unknown };
  readonly changelog: string;
}

/** What keeps a tag from being released, in a sentence each. */
export function releaseProblems({ tag, manifest, changelog }: Release): string[] {
  const { version, repository } = manifest;
  const problems: string[] = [];
  if (tag !== `v${version}`) {
    problems.push(
      `The tag is ${tag}, but package.json has version ${version}; tag v${version}, or change the version.`,
    );
  }
  const headings = [...changelog.matchAll(/^## \[([^\]]+)\](?: - (\d{4}-\d{2}-\d{2}))?$/gm)];
  const [, , date] = headings.find(([, name]) => name === version) ?? [];
  if (date === undefined) {
    problems.push(`CHANGELOG.md has no heading "## [${version}] - YYYY-MM-DD"; give what is unreleased this heading.`);
  }
  if (repository === undefined) {
    problems.push(
      "package.json has no `repository`, and a provenance statement is refused without it; set it to the repository's address.",
    );
  }
  return problems;
}

if (import.meta.main) {
  await runScript(USAGE, async (args) => {
    const [tag, ...more] = parsedArgs({ args: [...args], allowPositionals: true }).positionals;
    if (tag === undefined || more.length > 0) throw new UsageError("Give one tag, such as v0.1.0.");
    const read = (file: string) => readFileSync(new URL(`../${file}`, import.meta.url), "utf8");
    const problems = releaseProblems({
      tag,
      manifest: JSON.parse(read("package.json")) as Release["manifest"],
      changelog: read("CHANGELOG.md"),
    });
    for (const problem of problems) process.stderr.write(`${problem}\n`);
    if (problems.length === 0) process.stdout.write(`${tag} can be released.\n`);
    return problems.length === 0 ? 0 : 1;
  });
}
