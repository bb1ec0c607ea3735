// Everything of other packages that the server is made of. The build replaces this one file by a bundle of them, so that whoever
// installs the package installs none of these.
export { getRequestListener } from "@hono/node-server";
export { OpenAPIHono, z } from "@hono/zod-openapi";
export { Hono } from "hono";
export { parseItem } from "structured-headers";
