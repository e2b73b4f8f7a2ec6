"""Makes `twistd gateway` exist.  The work is in gateway.service."""

from twisted.application.service import ServiceMaker

serviceMaker = ServiceMaker("gateway", "gateway.service", "Several broker dialects over one command model.", "gateway")
