import type { AppOptions } from "./app.ts";
import { type PageFile, pageFiles } from "./page-files.ts";
import type { RouteResponse } from "./route-response.ts";

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
