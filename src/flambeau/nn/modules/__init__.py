from .module import Module as Module
