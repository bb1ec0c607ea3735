import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));

/**
 * Puts a bundle of the libraries in place of `dist/server/vendor.js`, the one file that imports them, with their licences beside
 * it. Everything else stays as it is: a limiter and its errors must be the same classes in all entries.
 */
export async function bundleServer(dist: string): Promise<void> {
  const vendor = join(dist, "server/vendor.js");
  const bundled = `${vendor}.bundled`;
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: [vendor],
    outfile: bundled,
    ...{ bundle: true, minify: true, metafile: true, legalComments: "none" },
    ...{ format: "esm", platform: "node", target: "node22.13", logLevel: "error" },
  });
  renameSync(bundled, vendor);
  // They name packages that are not installed with ours, and no entry needs them.
  for (const ending of [".d.ts", ".d.cts", ".js.map"]) rmSync(vendor.replace(/\.js$/, ending), { force: true });
  const packages = new Set(
    Object.keys(metafile.inputs).flatMap((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []),
  );
  writeFileSync(join(dist, "server/LICENSES.txt"), [...packages].sort().map(licenceOf).join("\n"));
}

function licenceOf(name: string): string {
  const folder = join(root, "node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Record<string, string>;
  const file = ["LICENSE", "LICENSE.md", "LICENSE.txt", "license"].map((each) => join(folder, each)).find(existsSync);
  const text = file === undefined ? `Licence: ${license}` : readFileSync(file, "utf8").trim();
  return `${name} ${version}\n\n${text}\n\n${"-".repeat(80)}\n`;
}
