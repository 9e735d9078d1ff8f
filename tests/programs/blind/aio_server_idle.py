"""DIAGNOSIS none.idle (control): a healthy asyncio server with nobody connected and a maintenance
task once a second.
"""

# ruff: noqa: F841, RUF006

import asyncio

from _stage import ready


async def handle(reader, writer):
    while line := await reader.readline():
        writer.write(line)
        await writer.drain()
    writer.close()


async def maintenance():
    while True:
        await asyncio.sleep(1)


async def main():
    srv = await asyncio.start_server(handle, "127.0.0.1", 0)
    t = asyncio.create_task(maintenance(), name="maintenance")
    ready()
    async with srv:
        await srv.serve_forever()


asyncio.run(main())
