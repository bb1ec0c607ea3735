#!/usr/bin/env node
import { processOutput } from "./output.ts";
import { run } from "./run.ts";

process.exitCode = await run(process.argv.slice(2), processOutput());
