# The service as an image: `docker build -t zae-limiter .`. `npm run image-steps` runs the same steps in an empty folder, without an engine.
FROM node:24-slim AS build
WORKDIR /build
COPY . .
RUN npm ci --no-audit --no-fund
RUN npm pack --pack-destination /build

FROM node:24-slim
WORKDIR /opt/zae-limiter
COPY --from=build /build/zae-limiter-*.tgz ./
# The clients of its stores are optional peers of the package, which npm does not bring.
RUN npm install --prefix /opt/zae-limiter --omit=dev --no-audit --no-fund ./zae-limiter-*.tgz @aws-sdk/client-dynamodb@3 @aws-sdk/credential-providers@3 undici@7 pg@8
RUN mkdir -p /var/lib/zae-limiter && chown node:node /var/lib/zae-limiter
USER node
ENV ZAEL_HOST=0.0.0.0 ZAEL_STORE=sqlite:/var/lib/zae-limiter/limiter.db ZAEL_TOKEN_FILE=/etc/zae-limiter/tokens.json
VOLUME /var/lib/zae-limiter
EXPOSE 4780
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["node", "-e", "const { ZAEL_PORT: port = 4780, ZAEL_TLS_CERT: tls } = process.env; require(tls ? 'node:https' : 'node:http').get({ host: '127.0.0.1', port, path: '/healthz', rejectUnauthorized: false }, (r) => process.exit(r.statusCode === 200 ? 0 : 1)).on('error', () => process.exit(1))"]
# `node` itself: a signal that npx gets does not reach the service.
ENTRYPOINT ["node", "/opt/zae-limiter/node_modules/zae-limiter/dist/cli/main.js"]
CMD ["serve"]
