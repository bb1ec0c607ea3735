import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundleCode } from "./bundle-code.ts";
import { bundleLambdas } from "./bundle-lambda.ts";
import { writePage } from "./bundle-page.ts";
import { bundleServer } from "./bundle-server.ts";
import { parsedArgs, runScript } from "./script.ts";

const USAGE = `npm run build                 src becomes dist: plain JavaScript with types beside it, for Node 22.13 and later
npm run build -- --no-types   the JavaScript alone, in a fraction of the time
`;

const root = fileURLToPath(new URL("..", import.meta.url));
const dist = join(root, "dist");

await runScript(USAGE, async (args) => {
  const { values } = parsedArgs({ args: [...args], options: { "no-types": { type: "boolean" } } });
  rmSync(dist, { recursive: true, force: true });
  if (!values["no-types"]) {
    execFileSync(join(root, "node_modules/.bin/tsc"), ["-p", "tsconfig.build.json"], { cwd: root, stdio: "inherit" });
    const { bundleTypes } = await import("./bundle-types.ts");
    bundleTypes(dist);
  }
  await bundleCode(root);
  await bundleServer(root);
  await bundleLambdas(dist);
  await writePage(join(dist, "dashboard"));
  return 0;
});
