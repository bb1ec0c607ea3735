import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { dirname, extname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import type { AppOptions } from "./app.ts";
import type { RouteResponse } from "./problem.ts";

/** One file of the dashboard, ready to be served. */
interface PageFile {
  readonly bytes: Uint8Array;
  /** The same, for clients that accept `gzip`. */
  readonly gzipped: Uint8Array;
  /** For `Content-Type`. */
  readonly type: string;
  /** For `ETag`, with its quotes. */
  readonly etag: string;
}

interface PageFiles {
  /** For `/`. */
  readonly index: PageFile;
  /** For `/assets/NAME`, by name; a name changes with what is in the file, so it may be cached for ever. */
  readonly assets: ReadonlyMap<string, PageFile>;
}

/** The dashboard: from `dist/dashboard` of the package; where the sources run unbuilt, bundled from them at the first call. */
export function pageFiles(): Promise<PageFiles> {
  loaded ??= load().catch((error: unknown) => {
    loaded = undefined;
    throw error;
  });
  return loaded;
}

let loaded: Promise<PageFiles> | undefined;

async function load(): Promise<PageFiles> {
  const here = fileURLToPath(import.meta.url);
  const root = rootAbove(here);
  const files = here.endsWith(".ts") ? await bundled(root) : await built(join(root, "dist/dashboard"));
  const index = files.get("index.html");
  if (index === undefined) throw new Error(`The dashboard is missing below ${root}; install the package again.`);
  const assets = [...files].filter(([path]) => path.startsWith("assets/"));
  return {
    index: pageFile("index.html", index),
    assets: new Map(assets.map(([path, bytes]) => [path.slice("assets/".length), pageFile(path, bytes)])),
  };
}

/** Imports by a computed name, so that users' bundlers do not look for our build scripts. */
async function bundled(root: string): Promise<ReadonlyMap<string, Uint8Array>> {
  const script = pathToFileURL(join(root, "scripts/bundle-page.ts")).href;
  const { bundlePage } = (await import(script)) as { bundlePage(): Promise<ReadonlyMap<string, Uint8Array>> };
  return bundlePage();
}

async function built(folder: string): Promise<ReadonlyMap<string, Uint8Array>> {
  if (!existsSync(folder)) return new Map();
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const read = paths.map(async (path) => [relativeTo(folder, path), await readFile(path)] as const);
  return new Map(await Promise.all(read));
}

function relativeTo(folder: string, path: string): string {
  return path.slice(folder.length + 1).replaceAll("\\", "/");
}

function pageFile(path: string, bytes: Uint8Array): PageFile {
  const digest = createHash("sha256").update(bytes).digest("base64url").slice(0, 22);
  return {
    bytes,
    gzipped: gzipSync(bytes, { level: 9 }),
    type: TYPES[extname(path)] ?? "application/octet-stream",
    etag: `"${digest}"`,
  };
}

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** The folder of the package; this file may be bundled into another one, so its depth is not known. */
function rootAbove(file: string): string {
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    if (isPackage(folder)) return folder;
    if (folder === dirname(folder)) throw new Error(`No zae-limiter package contains ${file}.`);
  }
}

function isPackage(folder: string): boolean {
  try {
    const { name } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { name?: unknown };
    return name === "zae-limiter";
  } catch {
    return false;
  }
}

/** The files of the dashboard as answers. Those under /assets/ have a hash in their names and never change. */
export function dashboard(): AppOptions["page"] {
  return async (path, request) => {
    const files = await pageFiles();
    if (path === "/") return fileResponse(files.index, request, "no-cache");
    const file = files.assets.get(path.slice("/assets/".length));
    return file === undefined ? undefined : fileResponse(file, request, "public, max-age=31536000, immutable");
  };
}

/** For `--no-dashboard`. */
export function noDashboard(): AppOptions["page"] {
  return async () => undefined;
}

function fileResponse(
  { bytes, gzipped, type, etag }: PageFile,
  { headers, method }: Request,
  caching: string,
): RouteResponse {
  const isGzip = /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?(?:\s*,|\s*$))/.test(headers.get("accept-encoding") ?? "");
  const fields = {
    "content-type": type,
    "cache-control": caching,
    vary: "Accept-Encoding",
    etag,
    ...(isGzip ? { "content-encoding": "gzip" } : {}),
  };
  if (headers.get("if-none-match") === etag) return { status: 304, headers: fields };
  return method === "HEAD"
    ? { status: 200, headers: fields }
    : { status: 200, bytes: isGzip ? gzipped : bytes, headers: fields };
}
