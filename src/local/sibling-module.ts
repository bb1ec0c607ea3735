import { fileURLToPath } from "node:url";

/** The path of a module beside the one at `url`, to be run as a process: as source in this repository, as JavaScript once built. */
export function siblingModule(name: string, url: string): string {
  return fileURLToPath(new URL(`./${name}${url.endsWith(".ts") ? ".ts" : ".js"}`, url));
}
