import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { pythonWith } from "./python-environment.ts";
import { startTied } from "./tied-server.ts";

const REQUIREMENTS = fileURLToPath(new URL("requirements.txt", import.meta.url));

/** A Python with the tools of the tests: moto's server and cfn-lint. Made once, kept outside of the repository. */
export function pythonTools(): Promise<string> {
  const moto = versionOf("moto");
  const linter = versionOf("cfn-lint");
  return pythonWith({
    name: `aws-tools-${moto}-${linter}`,
    what: `moto ${moto}, a server like AWS, and cfn-lint ${linter}`,
    install: ["-r", REQUIREMENTS],
  });
}

/** Its address. It is empty, and ends with this process. */
export async function startMoto(): Promise<string> {
  const python = await pythonTools();
  return startTied({
    name: "moto",
    command: (port) => [python, "-c", MOTO, "-H", "127.0.0.1", "-p", String(port)],
    env: {},
    port: undefined,
  });
}

/** moto 5.2.5 knows no policy that keeps but "Retain": of a stack that was made, CloudFormation keeps by this one too. */
const MOTO = `
from moto import server
from moto.cloudformation import parsing
delete = parsing.ResourceMap.delete
def keeping(resources):
    for resource in resources._resource_json_map.values():
        if resource.get("DeletionPolicy") == "RetainExceptOnCreate":
            resource["DeletionPolicy"] = "Retain"
    return delete(resources)
parsing.ResourceMap.delete = keeping
server.main()
`;

function versionOf(tool: string): string {
  const [, version] = new RegExp(`^${tool}==(.+)$`, "m").exec(readFileSync(REQUIREMENTS, "utf8")) ?? [];
  if (version === undefined) throw new Error(`${REQUIREMENTS} does not name a version of ${tool}; pin one.`);
  return version;
}
