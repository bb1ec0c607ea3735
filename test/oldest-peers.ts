import { registerHooks } from "node:module";

const OLDEST = new URL("./oldest/package.json", import.meta.url).href;

/**
 * From now on these packages are the oldest ones that are supported, those of test/oldest, whoever imports them: a module that
 * is to be tested with them is imported after this.
 */
export function useOldest(...names: readonly string[]): void {
  registerHooks({
    resolve: (specifier, context, next) => {
      const isOne = names.some((name) => specifier === name || specifier.startsWith(`${name}/`));
      return next(specifier, isOne ? { ...context, parentURL: OLDEST } : context);
    },
  });
}
