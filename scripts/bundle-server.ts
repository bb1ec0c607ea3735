import { join } from "node:path";
import { build, type Plugin } from "esbuild";
import { writeLicences } from "./licences.ts";

/**
 * Bundles the libraries of the service, all of which `src/server/vendor.ts` imports, into `dist/server/vendor.js`, with their
 * licences beside it: whoever installs the package installs none of these.
 */
export async function bundleServer(root: string): Promise<void> {
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: ["src/server/vendor.ts"],
    outfile: join(root, "dist/server/vendor.js"),
    ...{ bundle: true, minify: true, metafile: true, legalComments: "none" },
    ...{ format: "esm", platform: "node", target: "node22.13", logLevel: "error" },
    plugins: [onlyEnglish],
  });
  writeLicences(root, Object.keys(metafile.inputs), join(root, "dist/server/LICENSES.txt"));
}

/** The messages of zod in fifty languages are half of all of this; the service speaks English. */
const onlyEnglish: Plugin = {
  name: "only English",
  setup({ onLoad }) {
    onLoad({ filter: /zod\/v4\/locales\/index\.js$/ }, () => ({
      contents: 'export { default as en } from "./en.js";',
    }));
  },
};
