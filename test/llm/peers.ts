import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

/** The newest and the oldest version of a package that the entries are made for. */
export interface Peer<Module> {
  readonly label: string;
  readonly module: Module;
}

const PLACES = [new URL("../../package.json", import.meta.url), new URL("../oldest/package.json", import.meta.url)];

/** Both are loaded as CommonJS, which each of the versions has. */
export function peersOf<Module>(name: string): readonly Peer<Module>[] {
  return PLACES.map((place) => {
    const { version } = JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, place), "utf8"));
    return { label: `${name} ${version}`, module: createRequire(place)(name) as Module };
  });
}
