import { type Command, Option } from "commander";

/** Every option that may stand before or after any command. */
export function globalOptions(program: Command): void {
  program
    .option("--store <store>", "sqlite:FILE or dynamodb:STACK (ZAEL_STORE); default sqlite:.zae-limiter/limiter.db")
    .option("-n, --stack <name>", "the same as --store dynamodb:NAME (ZAEL_STACK)")
    .option("--url <url>", "a running service instead of a store (ZAEL_URL), such as https://limits.internal")
    .option("--token-file <file>", "the token for --url, in one line (ZAEL_TOKEN has the token itself)")
    .option("-N, --namespace <name>", "the tenant (ZAEL_NAMESPACE); default default")
    .option("--region <region>", "AWS region")
    .option("--profile <profile>", "AWS profile")
    .option("--endpoint, --endpoint-url <url>", "address of DynamoDB, such as http://localhost:8000")
    .option("--shared-table", "the original writes to this table too (ZAEL_SHARED_TABLE=1)")
    .option("--json", "one JSON document")
    .option("--ndjson", "lists and streams as one JSON value a line")
    .option("--principal <who>", "whom the audit trail names (ZAEL_PRINCIPAL); default user@host")
    .option("-y, --yes", "do not ask")
    .option("--dry-run", "check everything, say what would change, write nothing")
    .option("-q, --quiet", "no progress, no notes")
    .addOption(new Option("--color <when>", "colours (NO_COLOR, FORCE_COLOR)").choices(["auto", "always", "never"]))
    .option("--timeout <duration>", "bound on each call to the store; default 10s")
    .option("--debug", "causes and stack with an error (ZAEL_DEBUG=1)");
}
