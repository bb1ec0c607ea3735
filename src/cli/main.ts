#!/usr/bin/env node
import { processHost } from "./output.ts";
import { run } from "./run.ts";

process.exitCode = await run(process.argv.slice(2), processHost());
