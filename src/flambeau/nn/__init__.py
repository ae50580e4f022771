from .modules import *
from .modules import Module
from .parameter import Parameter, Buffer
