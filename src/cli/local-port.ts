import { loggedPorts, recordedPorts } from "../local/engine-record.ts";
import { UsageError } from "./exit-code.ts";

/** Where `local up` starts an engine unless it is told otherwise. */
export const LOCAL_PORT = 8000;

export function portOf(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (port >= 1 && port <= 65_535) return port;
  throw new UsageError(`--port is "${text}"; give a number from 1 to 65535, such as ${LOCAL_PORT}.`);
}

/** The engine that is meant: at the port given, else the one that there is. */
export function meantPort(text: string | undefined): number {
  return text === undefined ? only(recordedPorts()) : portOf(text);
}

/** The log that is meant; of an engine that runs, rather than of one that has ended. */
export function meantLogPort(text: string | undefined): number {
  if (text !== undefined) return portOf(text);
  const running = recordedPorts();
  return only(running.length > 0 ? running : loggedPorts());
}

function only(ports: readonly number[]): number {
  const [first = LOCAL_PORT] = ports;
  if (ports.length <= 1) return first;
  if (ports.includes(LOCAL_PORT)) return LOCAL_PORT;
  throw new UsageError(`DynamoDB Local is running on the ports ${ports.join(", ")}; choose one with --port.`);
}
