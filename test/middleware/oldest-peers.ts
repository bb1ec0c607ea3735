import { registerHooks } from "node:module";

const OLDEST = new URL("../oldest/package.json", import.meta.url).href;

/** From now on these packages are the oldest ones that are supported, for our sources and tests alike. */
export function useOldest(names: RegExp): void {
  registerHooks({
    resolve: (specifier, context, next) =>
      names.test(specifier) && !context.parentURL?.includes("/node_modules/")
        ? next(specifier, { ...context, parentURL: OLDEST })
        : next(specifier, context),
  });
}
