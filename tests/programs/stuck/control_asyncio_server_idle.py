"""DIAGNOSIS none.idle: healthy; an asyncio server waits for somebody to connect."""

import asyncio

from _stage import ready


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.readline())
    await writer.drain()
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    ready()
    async with server:
        await server.serve_forever()


asyncio.run(main())
