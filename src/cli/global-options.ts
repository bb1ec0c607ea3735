import { type Command, Option } from "commander";
import { storeOfEnvironment } from "../entry/store-kinds.ts";
import { typedNamesWithNotes } from "./store-option.ts";

/** Every option that may stand before or after any command. */
export function globalOptions(program: Command): void {
  program
    .option("--store <store>", `${typedNamesWithNotes()} (ZAEL_STORE); default ${storeOfEnvironment({})}`)
    .option("-n, --stack <name>", "the same as --store dynamodb:NAME (ZAEL_STACK)")
    .option("--url <url>", "use a running service instead of a store (ZAEL_URL), such as https://limits.internal")
    .option("--token-file <file>", "file with the token for --url, one line (ZAEL_TOKEN: the token itself)")
    .option("-N, --namespace <name>", "the namespace (ZAEL_NAMESPACE); default: default")
    .option("--region <region>", "AWS region")
    .option("--profile <profile>", "AWS profile")
    .option("--endpoint, --endpoint-url <url>", "URL of DynamoDB, such as http://localhost:8000")
    .option("--shared-table", "the Python original writes to this table too (ZAEL_SHARED_TABLE=1)")
    .option("--json", "print one JSON document")
    .option("--ndjson", "print lists and streams as one JSON value per line")
    .option("--principal <who>", "your name in the audit log (ZAEL_PRINCIPAL); default user@host")
    .option("-y, --yes", "do not ask for confirmation")
    .option("--dry-run", "check everything, show what would change, write nothing")
    .option("-q, --quiet", "no progress, no notes")
    .addOption(new Option("--color <when>", "colours (NO_COLOR, FORCE_COLOR)").choices(["auto", "always", "never"]))
    .option("--timeout <duration>", "timeout of each call to the store; default 10s")
    .option("--debug", "print causes and stack traces of errors (ZAEL_DEBUG=1)");
}
