import type { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import type { RequestHandlerExtra } from "@modelcontextprotocol/sdk/shared/protocol.js";
import type { ServerNotification, ServerRequest } from "@modelcontextprotocol/sdk/types.js";
import type { Tokens } from "../domain/charge/amounts.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";
import type { Acquiring } from "../engine/acquire/acquiring.ts";
import { checkToolOptions } from "../llm/limit-tool.ts";

/** The SDK's account of a call: `sessionId`, `authInfo`, `requestInfo`, `_meta`, `signal`. */
export type ToolExtra = RequestHandlerExtra<ServerRequest, ServerNotification>;

/** One call of a tool. */
export interface ToolCall {
  /** The name of the tool. */
  readonly tool: string;
  /** The arguments as the tool gets them; `undefined` for a tool without an input schema. */
  readonly args: unknown;
  /** The SDK's account of the call. */
  readonly extra: ToolExtra;
}

/** Options of `limitTools`. Functions may be async. */
export interface LimitToolsOptions {
  /** A `RateLimiter`, a `LimiterClient`, or a promise of one. */
  readonly limiter: Acquiring | Promise<Acquiring>;
  /** The entity that is charged: its id, or a function of what the SDK tells of the call. */
  readonly entityId: string | ((extra: ToolExtra) => string | Promise<string>);
  /** The resource that is charged, any text. Default: `tool:` and the name of the tool. */
  readonly resource?: string | ((call: ToolCall) => string | Promise<string>);
  /**
   * Whole tokens by measure. Default: 1 of every measure that the entity's limits on the resource count; they are
   * looked up for each call.
   */
  readonly consume?: Tokens | ((call: ToolCall) => Tokens | Promise<Tokens>);
  /** The share of every hard limit that a call must leave, in percent from 0 to 99. Default: 0. */
  readonly leavePercent?: number;
  /** The longest wait for tokens before a refusal, in ms; a call that is canceled waits no longer. Default: no wait. */
  readonly wait?: { readonly maxMs: number };
}

const OPTIONS = new KnownNames<LimitToolsOptions>({
  ...{ limiter: true, entityId: true, resource: true, consume: true, leavePercent: true, wait: true },
});

export function checkServer(server: McpServer): void {
  const given = server as Partial<McpServer> | null | undefined;
  if (typeof given?.registerTool === "function" && typeof given.tool === "function") return;
  throw new ValidationError(
    "server_invalid",
    `limitTools was given ${shown(server)}; give an McpServer of @modelcontextprotocol/sdk, 1.13 or later.`,
  );
}

export function checkOptions(options: LimitToolsOptions): LimitToolsOptions {
  OPTIONS.check(options, "The options of limitTools");
  checkToolOptions(options, "limitTools", "an id, or a function of the call's extra");
  return options;
}
