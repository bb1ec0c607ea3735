// Everything of other packages that the server is made of. The build replaces this one file by a bundle of them, so that whoever
// installs the package installs none of these.
export { getRequestListener } from "@hono/node-server";
export { OpenAPIHono, z } from "@hono/zod-openapi";
export { RegExpRouter } from "hono/router/reg-exp-router";
export { getPath, tryDecodeURIComponent } from "hono/utils/url";
export { parseItem } from "structured-headers";
