import { parse } from "yaml";

/** How the deploying guide starts the service in one kind of place. */
export interface Recipe {
  readonly name: string;
  /** What is given to the program. Empty: what the image gives it. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** What probes ask, by port and path. */
  readonly probes: readonly { readonly port: number; readonly path: string }[];
  /** A health check of its own. Empty: that of the image. */
  readonly health: readonly string[];
}

/** The recipes of the guide; throws where one is not found. */
export function recipesOf(guide: string): readonly Recipe[] {
  const none = { args: [], env: {}, probes: [], health: [] } as const;
  const [, compose] = blockOf(guide, "yaml", /^(services:[\s\S]*)$/);
  const { limits } = (parse(compose) as { services: { limits: { environment?: Record<string, string> } } }).services;
  const [, deployment] = blockOf(guide, "yaml", /^(apiVersion: apps\/v1[\s\S]*)$/);
  const [container] = (parse(deployment) as Deployment).spec.template.spec.containers;
  const [, definition] = blockOf(guide, "json", /^([\s\S]*"healthCheck"[\s\S]*)$/);
  const { environment, healthCheck } = JSON.parse(definition) as TaskContainer;
  const [, started] = blockOf(guide, "ini", /^ExecStart=\S+ \S+main\.js (.*)$/m);
  const [, stored] = blockOf(guide, "ini", /^Environment=(ZAEL_STORE=\S+)$/m);
  return [
    { ...none, name: "systemd", args: started.split(" ") },
    { ...none, name: "systemd on PostgreSQL", args: ["serve"], env: Object.fromEntries([stored.split("=")]) },
    { ...none, name: "Compose", env: limits.environment ?? {} },
    {
      ...{ ...none, name: "Kubernetes", env: variables(container.env) },
      probes: [container.livenessProbe.httpGet, container.readinessProbe.httpGet],
    },
    { ...none, name: "ECS", env: variables(environment), health: healthCheck.command.slice(1) },
  ];
}

type Variables = readonly { readonly name: string; readonly value: string }[];
type Probe = { readonly httpGet: { readonly port: number; readonly path: string } };

interface Deployment {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly containers: readonly [
          { readonly env: Variables; readonly livenessProbe: Probe; readonly readinessProbe: Probe },
        ];
      };
    };
  };
}

interface TaskContainer {
  readonly environment: Variables;
  readonly healthCheck: { readonly command: readonly string[] };
}

function variables(given: Variables): Readonly<Record<string, string>> {
  return Object.fromEntries(given.map(({ name, value }) => [name, value]));
}

function blockOf(guide: string, language: string, looksLike: RegExp): readonly [string, string] {
  for (const [, text = ""] of guide.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, "gm"))) {
    const [whole, found] = looksLike.exec(text) ?? [];
    if (whole !== undefined && found !== undefined) return [whole, found];
  }
  throw new Error(`The guide has no block of ${language} like ${looksLike}.`);
}
