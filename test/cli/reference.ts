import { COMMANDS, GROUPS } from "../../src/cli/commands.ts";
import { here } from "./in-process.ts";

/** docs/reference/cli.md, as the help of the tool has it. */
export async function cliReference(): Promise<string> {
  const parts = [HEAD, section("zae-limiter", 2, await helpOf([]))];
  for (const { path } of COMMANDS) {
    const [group, word] = path;
    if (word !== undefined && !parts.some((part) => part.startsWith(`## ${group}\n`))) {
      parts.push(`## ${group}\n\n${GROUPS[group ?? ""]}.\n`);
    }
    parts.push(section(path.join(" "), word === undefined ? 2 : 3, await helpOf(path)));
  }
  return parts.join("\n");
}

export async function helpOf(path: readonly string[]): Promise<string> {
  return (await here([...path, "--help"])).stdout;
}

function section(title: string, level: number, help: string): string {
  return `${"#".repeat(level)} ${title}\n\n\`\`\`text\n${help.trim()}\n\`\`\`\n`;
}

const HEAD = `# The command line

\`zae-limiter\` operates limits on every store. This page is made from the tool's own help by \`node scripts/cli-reference.ts\`; the guide
[Operating](../guide/operating.md) shows the daily commands.

## Exit codes

| code | when |
| --- | --- |
| 0 | done; also an empty list, and nothing left to do |
| 1 | refused; exists; in conflict; declined; a check failed |
| 2 | usage: command, option, value, missing \`--yes\` |
| 3 | the store: unreachable, denied, not ours, wrong version, package missing |
| 4 | not there: store, namespace, entity, resource, limits |
| 70 | a defect of ours |
| 130, 143 | interrupted by SIGINT, SIGTERM |

## Values

| value | written |
| --- | --- |
| limit | \`NAME:AMOUNT[/PERIOD][:BURST][,WORD…]\`, such as \`rpm:1000/min:1500,soft\`; [all forms](limits.md) |
| amount | digits, \`_\` between them, then at most one of \`k\`, \`M\`, \`G\` |
| period | \`s\`, \`min\`, \`hour\`, \`day\`, with a count: \`5min\`; default \`min\` |
| words of a limit | \`soft\`; \`shadow\`; \`reset=hourly\\|daily\\|weekly\\|monthly\\|yearly\\|CRON\`; \`after=DURATION\`; \`when=CRON xSCALE\` or \`when=CRON AMOUNT[/PERIOD][:BURST]\`, repeated; \`tz=ZONE\`; \`counts=MEASURE\`; \`notify=PERCENT/PERCENT\` |
| tokens, \`-c\` by measure, \`-a\` by limit | \`NAME=N\`, repeated or with commas |
| duration | \`500ms\`, \`30s\`, \`5m\`, \`2h\`, \`1d\` |
| instant | ISO 8601 (without a zone: UTC), or a duration: so long ago |

With \`--json\` a list is \`{ "items": [...], "cursor"?: "..." }\`, an error one line \`{ "error": { "code", "message", "exitCode" } }\` on stderr.
Times are milliseconds, tokens whole, never is \`null\`.
`;
