import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundleCode } from "./bundle-code.ts";
import { bundleLambdas } from "./bundle-lambda.ts";
import { writePage } from "./bundle-page.ts";
import { bundleServer } from "./bundle-server.ts";
import { bundleTypes } from "./bundle-types.ts";
import { takesNoArguments } from "./script.ts";

takesNoArguments(
  "npm run build      src becomes dist: plain JavaScript with types beside it, for Node 22.13 and later\n",
);

const root = fileURLToPath(new URL("..", import.meta.url));
const dist = join(root, "dist");

rmSync(dist, { recursive: true, force: true });
execFileSync(join(root, "node_modules/.bin/tsc"), ["-p", "tsconfig.build.json"], { cwd: root, stdio: "inherit" });
bundleTypes(dist);
await bundleCode(root);
await bundleServer(root);
await bundleLambdas(dist);
await writePage(join(dist, "dashboard"));
