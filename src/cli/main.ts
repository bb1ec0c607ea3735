#!/usr/bin/env node
import module from "node:module";
import { keptPath } from "../local/kept-folder.ts";

// Node keeps what it compiled for one command, for the next. An older Node, or one that cannot keep it, goes without.
module.enableCompileCache?.(keptPath("compiled"));
const { runProcess } = await import("./run-process.ts");
process.exitCode = await runProcess();
