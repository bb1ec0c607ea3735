import type { McpServer, RegisteredTool } from "@modelcontextprotocol/sdk/server/mcp.js";
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import { LimiterError, RateLimitExceeded } from "../domain/names/errors.ts";
import { resourceOf } from "../domain/names/text-names.ts";
import type { Acquiring } from "../engine/acquire/acquiring.ts";
import type { AcquireRequest } from "../engine/acquire/request.ts";
import { withCurrentLease } from "../engine/lease/current-lease.ts";
import { paidBody } from "../engine/lease/work-end.ts";
import { oneOfEach } from "../llm/limit-tool.ts";
import { checkOptions, checkServer, type LimitToolsOptions, type ToolCall, type ToolExtra } from "./options.ts";

/** Where the problem stands for a tool with an output schema. */
const PROBLEM_META = "zae-limiter/problem";

/**
 * Makes the result that a model gets in place of the tool's answer: text that it understands, and the problem for programs. The client holds
 * structured content against the output schema of a tool even in an error, and throws, so there it stands beside.
 */
function refusedResult(
  error: LimiterError,
  tool: { readonly name: string; readonly hasOutputSchema: boolean },
): CallToolResult {
  const problem = error.toProblem();
  return {
    content: [{ type: "text", text: textOf(error, problem, tool.name) }],
    isError: true,
    ...(tool.hasOutputSchema ? { _meta: { [PROBLEM_META]: problem } } : { structuredContent: problem }),
  };
}

function textOf(error: LimiterError, problem: Record<string, unknown>, tool: string): string {
  if (!(error instanceof RateLimitExceeded)) return `The tool ${tool} was not called: ${problem.detail}`;
  const limits = (problem["violated-policies"] as readonly string[]).join(", ");
  const again = Number.isFinite(error.retryAfterMs)
    ? `Try again in ${error.retryAfterSeconds} s.`
    : "Do not try again: the call will not fit in the foreseeable future.";
  return `Rate limited: the tool ${tool} was not called, because too little is left of ${limits}. ${again}`;
}

/** A tool's function: with its arguments and what the SDK tells of the call, or without an input schema the latter alone. */
type Callback = (...given: readonly unknown[]) => CallToolResult | Promise<CallToolResult>;

/**
 * Limits every tool that is registered on the server after this call, by `registerTool` or `tool`. A call that is
 * refused is answered with `isError` and does not run; one that throws gives its tokens back, unless it was canceled. Answers the server.
 *
 * ```ts
 * const server = limitTools(new McpServer({ name: "search", version: "1.0.0" }), {
 *   limiter,
 *   entityId: (extra) => extra.authInfo?.clientId ?? "anonymous",
 * });
 * server.registerTool("search", { inputSchema: { query: z.string() } }, search);
 * ```
 */
export function limitTools<Server extends McpServer>(server: Server, options: LimitToolsOptions): Server {
  checkServer(server);
  const limits = new ToolLimits(server, checkOptions(options));
  const registerTool = server.registerTool.bind(server) as (...args: unknown[]) => RegisteredTool;
  const tool = server.tool.bind(server) as (...args: unknown[]) => RegisteredTool;
  const registering =
    (register: (...args: unknown[]) => RegisteredTool) =>
    (...args: unknown[]): RegisteredTool => {
      const limited = new LimitedTool(limits, String(args[0]));
      // The function is the last argument of both, whatever else stands before it.
      const registered = register(...args.slice(0, -1), limited.around(args.at(-1)));
      limited.registered(registered);
      return registered;
    };
  server.registerTool = registering(registerTool) as Server["registerTool"];
  server.tool = registering(tool) as Server["tool"];
  return server;
}

/** The limits of a server, shared by all its tools. */
class ToolLimits {
  readonly #server: McpServer;
  readonly #options: LimitToolsOptions;
  /** The results of calls that were not let through, until these are answered. */
  readonly refused = new WeakMap<ToolExtra, CallToolResult>();
  #isGuarded = false;

  constructor(server: McpServer, options: LimitToolsOptions) {
    this.#server = server;
    this.#options = options;
  }

  async run(call: ToolCall, body: () => CallToolResult | Promise<CallToolResult>): Promise<CallToolResult> {
    const limiter = await this.#options.limiter;
    const request = await this.#requestFor(limiter, call);
    return limiter.withLease(request, (lease) =>
      withCurrentLease(lease, () => paidBody(lease, [call.extra?.signal], body)),
    );
  }

  async #requestFor(limiter: Acquiring, call: ToolCall): Promise<AcquireRequest> {
    const { entityId: whose, resource: what, consume, leavePercent, wait } = this.#options;
    const entityId = typeof whose === "function" ? await whose(call.extra) : whose;
    const resource = resourceOf(typeof what === "function" ? await what(call) : (what ?? `tool:${call.tool}`));
    const tokens =
      consume === undefined
        ? await oneOfEach(limiter, entityId, resource)
        : typeof consume === "function"
          ? await consume(call)
          : consume;
    return {
      ...{ entityId, resource },
      ...(tokens === undefined ? {} : { consume: tokens }),
      ...(leavePercent === undefined ? {} : { leavePercent }),
      ...(wait === undefined ? {} : { wait }),
      // Canceled by the client, or the connection is gone. Some transports have none.
      ...(call.extra?.signal === undefined ? {} : { signal: call.extra.signal }),
    };
  }

  /**
   * Version 1.13.0 makes a protocol error of every answer without structured content, errors too, where a tool has an output
   * schema. So the handler of `tools/call` is wrapped: what was refused is answered as such. Later versions do that themselves.
   */
  guardOutputs(): void {
    if (this.#isGuarded) return;
    this.#isGuarded = true;
    const { _requestHandlers: handlers } = this.#server.server as unknown as { _requestHandlers?: Handlers };
    const handle = handlers?.get("tools/call");
    if (handlers === undefined || handle === undefined) return;
    handlers.set("tools/call", async (request, extra) => {
      try {
        return await handle(request, extra);
      } catch (error) {
        const refused = this.refused.get(extra);
        if (refused === undefined) throw error;
        return refused;
      }
    });
  }
}

type Handlers = Map<string, (request: unknown, extra: ToolExtra) => Promise<unknown>>;

/** One tool: its name and its schema are what they are when it is called, since `update` may change both. */
class LimitedTool {
  readonly #limits: ToolLimits;
  #name: string;
  #registered: RegisteredTool | undefined;

  constructor(limits: ToolLimits, name: string) {
    this.#limits = limits;
    this.#name = name;
  }

  registered(registered: RegisteredTool): void {
    this.#registered = registered;
    if (registered.outputSchema !== undefined) this.#limits.guardOutputs();
    const update = registered.update.bind(registered) as (updates: Record<string, unknown>) => void;
    registered.update = ((updates: Record<string, unknown>) => {
      const { callback, name } = updates;
      update(callback === undefined ? updates : { ...updates, callback: this.around(callback) });
      if (typeof name === "string") this.#name = name;
      if (this.#registered?.outputSchema !== undefined) this.#limits.guardOutputs();
    }) as RegisteredTool["update"];
  }

  /** A callback that is no function is the SDK's to refuse. */
  around(callback: unknown): unknown {
    return typeof callback === "function" ? this.#limited(callback as Callback) : callback;
  }

  #limited(callback: Callback): Callback {
    return async (...given) => {
      const extra = given.at(-1) as ToolExtra;
      const tool = this.#name;
      let hasBegun = false;
      const body = () => {
        hasBegun = true;
        return callback(...given);
      };
      try {
        return await this.#limits.run({ tool, args: given.length > 1 ? given[0] : undefined, extra }, body);
      } catch (error) {
        // An error that the tool itself throws, a refusal of something that it called too, is its own answer.
        if (hasBegun || !(error instanceof LimiterError)) throw error;
        const hasOutputSchema = this.#registered?.outputSchema !== undefined;
        const refused = refusedResult(error, { name: tool, hasOutputSchema });
        if (typeof extra === "object" && extra !== null) this.#limits.refused.set(extra, refused);
        return refused;
      }
    };
  }
}
