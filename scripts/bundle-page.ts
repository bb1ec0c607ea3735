import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));
const source = join(root, "src/dashboard");

/** What is bundled with the page: each has a licence that must go with it. */
const LIBRARIES = ["preact", "uplot", "eventsource-parser"];

/**
 * The dashboard as it is served, by path: `index.html`, `assets/` with names that change with what is in them, and the licences
 * of what is bundled. Script and style are files of their own, because the page's security policy allows no others.
 */
export async function bundlePage(): Promise<ReadonlyMap<string, Uint8Array>> {
  const { outputFiles, metafile } = await build({
    absWorkingDir: root,
    entryPoints: { app: join(source, "main.tsx"), icon: join(source, "icon.svg") },
    outdir: join(root, "assets"),
    ...{ bundle: true, minify: true, write: false, metafile: true, splitting: false },
    ...{ format: "esm", platform: "browser", target: ["es2022"], charset: "utf8" },
    ...{ jsx: "automatic", jsxImportSource: "preact" },
    ...{ entryNames: "[name]-[hash]", loader: { ".svg": "copy" }, legalComments: "none" },
    logLevel: "error",
  });
  const files = new Map(outputFiles.map(({ path, contents }) => [`assets/${basename(path)}`, contents]));
  const bundled = Object.keys(metafile.inputs).flatMap((path) => /node_modules\/([^/]+)\//.exec(path)?.[1] ?? []);
  const unlisted = bundled.find((name) => !LIBRARIES.includes(name));
  if (unlisted !== undefined) throw new Error(`The page bundles ${unlisted}; add it to LIBRARIES, for its licence.`);
  files.set("index.html", bytesOf(indexOf([...files.keys()])));
  files.set("LICENSES.txt", bytesOf(LIBRARIES.map(licenceOf).join("\n")));
  return files;
}

/** Writes the bundled page into a folder. */
export async function writePage(folder: string): Promise<void> {
  for (const [path, bytes] of await bundlePage()) {
    const file = join(folder, path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, bytes);
  }
}

/** The page with the names that its files got. */
function indexOf(paths: readonly string[]): string {
  const named = (ending: string): string => {
    const path = paths.find((each) => each.endsWith(ending));
    if (path === undefined) throw new Error(`The bundle of the page has no ${ending} file.`);
    return `/${path}`;
  };
  return readFileSync(join(source, "index.html"), "utf8")
    .replace("{{script}}", named(".js"))
    .replace("{{style}}", named(".css"))
    .replace("{{icon}}", named(".svg"));
}

function licenceOf(name: string): string {
  const folder = join(root, "node_modules", name);
  const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { version: string };
  return `${name} ${version}\n\n${readFileSync(join(folder, "LICENSE"), "utf8").trim()}\n`;
}

function bytesOf(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
