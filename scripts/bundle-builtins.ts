import type { Plugin } from "esbuild";

/**
 * Node's own modules, each loaded when something of it is first used. Imported the usual way all of their members are looked at
 * as soon as a file is, and some members load other modules: together they take as long to start as Node itself.
 */
export const lazyBuiltins: Plugin = {
  name: "lazy builtins",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^node:/ }, ({ path }) => ({ path, namespace: "builtin" }));
    onLoad({ filter: /.*/, namespace: "builtin" }, ({ path }) => ({ contents: lazily(path) }));
  },
};

/** The text of a module with the same members. What a file does not import of it is left out when it is bundled. */
function lazily(path: string): string {
  const found = process.getBuiltinModule(path) as Readonly<Record<string, unknown>>;
  const members = Object.keys(found).filter((name) => name !== "default");
  return [
    `let found; const load = () => (found ??= process.getBuiltinModule(${JSON.stringify(path)}));`,
    ...members.map((name) =>
      isCalled(name, found[name])
        ? `export const ${name} = (...given) => load().${name}(...given);`
        : `export const ${name} = /* @__PURE__ */ (() => load().${name})();`,
    ),
    "export default /* @__PURE__ */ new Proxy(() => {}, {",
    "  get: (_, name) => load()[name],",
    "  set: (_, name, value) => Reflect.set(load(), name, value),",
    "  apply: (_, self, given) => load()(...given),",
    "});",
  ].join("\n");
}

/** A class is no use as a function that calls it, and a value is none at all: these are there when they are imported. */
function isCalled(name: string, member: unknown): boolean {
  return typeof member === "function" && /^[a-z]/.test(name);
}
