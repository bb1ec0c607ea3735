import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Writes the licences of the packages that are bundled, each of which must go with the code. `inputs`: the paths of all that is. */
export function writeLicences(root: string, inputs: readonly string[], file: string): void {
  const packages = new Set(inputs.flatMap((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []));
  writeFileSync(
    file,
    Array.from(packages, (name) => licenceOf(root, name))
      .sort()
      .join("\n"),
  );
}

function licenceOf(root: string, name: string): string {
  const folder = join(root, "node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Record<string, string>;
  const file = ["LICENSE", "LICENSE.md", "LICENSE.txt", "license"].map((each) => join(folder, each)).find(existsSync);
  const text = file === undefined ? `Licence: ${license}` : readFileSync(file, "utf8").trim();
  return `${name} ${version}\n\n${text}\n\n${"-".repeat(80)}\n`;
}
